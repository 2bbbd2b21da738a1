// SPDX-License-Identifier: Apache-2.0
// Operators of ranks that compute attention, in models whose feed-forward networks are on other ranks. For operators
// that access memory of other ranks, only sizes are known.
#include <tuple>

#include "device/npu/call_record.h"
#include "device/npu_ops/families.h"
#include "device/npu_ops/moe/schedule_context.h"

namespace npugraph::npu_ops {
namespace {

using at::IntArrayRef;

Tensor attention_scheduler(const Tensor& context) { return at::empty_like(context); }

Tensor& attention_scheduler_in_place(Tensor& context) { return context; }

constexpr const char* kCombine = "npu_attention_worker_combine";

at::ScalarType type_of_tokens(int64_t token_dtype) {
  constexpr auto kHalf = static_cast<int64_t>(at::kHalf), kBFloat16 = static_cast<int64_t>(at::kBFloat16);
  check_choice(kCombine, "token_dtype", token_dtype, {0, 1, kHalf, kBFloat16});
  return token_dtype == 0 || token_dtype == kHalf ? at::kHalf : at::kBFloat16;
}

// Results: one row of `hidden_size` for each row of expert_scales, and the number of the next layer.
std::tuple<Tensor, Tensor> attention_worker_combine_meta(const Tensor&, const Tensor& expert_scales,
                                                         const Tensor& layer_id, int64_t hidden_size,
                                                         int64_t token_dtype, int64_t) {
  const at::ScalarType type = type_of_tokens(token_dtype);
  return {expert_scales.new_empty_symint({expert_scales.sym_size(0), hidden_size}, type), at::empty_like(layer_id)};
}

// Checks that all rows have come, and marks them as taken. Does not wait: they have been written
// already, or never will be.
void take_flags(const ScheduleContext& context, const Tensor& flags) {
  TORCH_CHECK(flags.eq(1).all().item<bool>(), kCombine, ": need_schedule is 1, but of the ", flags.numel(),
              " rows of micro batch ", context.attention.micro_batch, " only ", flags.eq(1).sum().item<int64_t>(),
              " have come");
  flags.zero_();
}

std::tuple<Tensor, Tensor> attention_worker_combine(const Tensor& schedule_context, const Tensor& expert_scales,
                                                    const Tensor& layer_id, int64_t hidden_size, int64_t token_dtype,
                                                    int64_t need_schedule) {
  const at::ScalarType type = type_of_tokens(token_dtype);
  check_choice(kCombine, "need_schedule", need_schedule, {0, 1});
  check_dims(kCombine, "expert_scales", expert_scales, 2, 2);
  const ScheduleContext context = read_context(kCombine, schedule_context);
  const auto& common = context.common;
  const int64_t batches = common.micro_batches, rows = common.tokens, each = common.experts_of_token;
  const int64_t tokens = expert_scales.size(0), k = expert_scales.size(1), batch = context.attention.micro_batch;
  TORCH_CHECK(tokens <= rows && k <= each && batch < batches, kCombine, ": expert_scales has shape ",
              expert_scales.sizes(), " for micro batch ", batch, ", and schedule_context has ", batches,
              " micro batches of ", rows, " tokens, with ", each, " rows of each");
  const auto size = static_cast<int64_t>(c10::elementSize(type));
  TORCH_CHECK(
      hidden_size > 0 && hidden_size * size <= common.bytes_to_attention && common.bytes_to_attention % size == 0,
      kCombine, ": hidden_size is ", hidden_size, ", and the rows of schedule_context have ", common.bytes_to_attention,
      " bytes");
  if (need_schedule == 1 && !npu::is_captured()) {
    const Tensor flags = tensor_of(kCombine, "token_info_buf", context.attention.info, {batches, rows, each}, at::kInt);
    take_flags(context, flags.select(0, batch).narrow(0, 0, tokens));
  }
  const Tensor data = tensor_of(kCombine, "token_data_buf", context.attention.data,
                                {batches, rows, each, common.bytes_to_attention / size}, type);
  const Tensor parts = wide(data.select(0, batch).narrow(0, 0, tokens).narrow(2, 0, hidden_size));
  const Tensor given = wide(expert_scales);
  const Tensor weights = at::cat({given, given.new_ones({tokens, each - k})}, 1);  // shared experts come last
  return {(parts * weights.unsqueeze(-1)).sum(1).to(type), layer_id + 1};
}

void attention_to_ffn(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      c10::string_view, int64_t, IntArrayRef, IntArrayRef, IntArrayRef, int64_t, const OptionalTensor&,
                      const OptionalTensor&, int64_t, int64_t, int64_t) {}

}  // namespace

void define_attention_workers(OperatorLibrary& library) {
  library.add({
      .schema = "npu::attention_worker_scheduler(Tensor input) -> Tensor",
      .kernel = sizes_only(&attention_scheduler),
      .definition = "Waits, on a rank that computes attention, until rows of a micro batch have come back from the "
                    "ranks that compute feed-forward networks (attention-FFN disaggregation: MegaScale-Infer, Zhu et "
                    "al., 2025). input is the schedule context of npu_attention_worker_combine; the result has its "
                    "shape and type.",
  });
  library.add({
      .schema = "npu::attention_worker_scheduler_(Tensor(a!) input) -> Tensor(a!)",
      .kernel = sizes_only(&attention_scheduler_in_place),
      .definition = "attention_worker_scheduler that updates and returns input.",
  });
  library.add({
      .schema =
          "npu::npu_attention_to_ffn(Tensor x, Tensor session_id, Tensor micro_batch_id, Tensor layer_id, Tensor "
          "expert_ids, Tensor expert_rank_table, str group, int world_size, int[] ffn_token_info_table_shape, int[] "
          "ffn_token_data_shape, int[] attn_token_info_table_shape, int moe_expert_num, *, Tensor? scales=None, "
          "Tensor? active_mask=None, int quant_mode=0, int sync_flag=0, int ffn_start_rank_id=0) -> ()",
      .kernel = sizes_only(&attention_to_ffn),
      .traits = {.has_effect = true},
      .definition = "Sends the tokens of micro batches from a rank that computes attention to the ranks that compute "
                    "their experts, into the token tables of these ranks. x is [X, BS, H], expert_ids [X, BS, K] holds "
                    "the experts of each token, session_id, micro_batch_id and layer_id are [X], and expert_rank_table "
                    "holds the ranks of each expert. active_mask selects tokens; scales and quant_mode are for "
                    "quantised rows. There is no result.",
  });
  library.add({
      .schema = "npu::npu_attention_worker_combine(Tensor schedule_context, Tensor expert_scales, Tensor layer_id, int "
                "hidden_size, *, int token_dtype=0, int need_schedule=0) -> (Tensor, Tensor)",
      .kernel = whole(&attention_worker_combine, &attention_worker_combine_meta),
      .definition = "Adds up the rows that came back to a rank of attention from the ranks of feed-forward networks, "
                    "for the micro batch of schedule_context, in float32: y[i] = sum over j of expert_scales[i, j] * "
                    "row[i, j]. Rows of a token after its K experts are of shared experts and have weight 1. "
                    "expert_scales is [N, K]. Results: y [N, hidden_size] in float16 (token_dtype 0 or torch.float16) "
                    "or bfloat16 (1 or torch.bfloat16); and layer_id + 1, in the shape and type of layer_id, which has "
                    "no other use. schedule_context holds the 1024 bytes of Ascend's AttentionWorkerScheduler: uint32 "
                    "numbers of micro batches at byte 4, of tokens at 8, of rows of a token at 12, and of bytes of a "
                    "row at 24; the memory of the flags at 256 and of the rows at 272, as a uint64 address in npu "
                    "memory and a uint64 size; and the uint32 micro batch at 288. Rows are [micro batches, tokens, "
                    "rows of a token, bytes of a row], in the type of y; the first N tokens and the first hidden_size "
                    "elements of a row are read. Flags are int32 [micro batches, tokens, rows of a token], 1 where the "
                    "row has come. With need_schedule 1 all rows of the N tokens must have come, or a RuntimeError is "
                    "raised, and their flags are set to 0; in captured graphs, and with need_schedule 0, rows are read "
                    "as they are, without flags.",
  });
}

}  // namespace npugraph::npu_ops
