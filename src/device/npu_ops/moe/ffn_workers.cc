// SPDX-License-Identifier: Apache-2.0
// Operators of ranks that compute feed-forward networks, in models whose attention is on other ranks. For operators
// that access memory of other ranks, only sizes are known.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/moe/moe.h"
#include "device/npu_ops/moe/schedule_context.h"

namespace npugraph::npu_ops {
namespace {

using at::IntArrayRef;
using Batch = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

Tensor ffn_scheduler(const Tensor& context, int64_t, int64_t) { return at::empty_like(context); }

Tensor& ffn_scheduler_in_place(Tensor& context, int64_t, int64_t) { return context; }

constexpr const char* kBatching = "npu_ffn_worker_batching";

at::ScalarType type_of_rows(int64_t token_dtype, IntArrayRef max_out_shape) {
  constexpr at::ScalarType kTypes[] = {at::kHalf, at::kBFloat16, at::kChar};
  check_choice(kBatching, "token_dtype", token_dtype, {0, 1, 2});
  TORCH_CHECK(max_out_shape.size() == 4, kBatching, ": max_out_shape has ", max_out_shape.size(),
              " numbers, allowed are 4");
  return kTypes[token_dtype];
}

// max_out_shape has the numbers of sessions, tokens of a session, experts of a token, and values of a row. Results:
// rows; experts and their numbers of rows; session, micro batch, token, number of the token's expert, and scale of each
// row; the number of rows.
Batch ffn_worker_batching_meta(const Tensor& context, int64_t expert_num, IntArrayRef max_out_shape,
                               int64_t token_dtype, int64_t, int64_t) {
  const at::ScalarType type = type_of_rows(token_dtype, max_out_shape);
  const int64_t rows = max_out_shape[0] * max_out_shape[1] * max_out_shape[2];
  auto of_rows = [&] { return context.new_empty({rows}, at::kInt); };
  return {context.new_empty({rows, max_out_shape[3]}, type),
          context.new_empty({expert_num, 2}, at::kLong),
          of_rows(),
          of_rows(),
          of_rows(),
          of_rows(),
          context.new_empty({rows}, at::kFloat),
          context.new_empty({1}, at::kLong)};
}

// Positions of the rows that a scheduler has chosen, ordered by expert: session, micro batch, token, number
// of the token's expert.
struct Chosen {
  Tensor experts, session, micro_batch, token, slot;
};

Chosen chosen_rows(const ScheduleContext& context, int64_t expert_num) {
  const int64_t batches = context.ffn.batches, tokens = context.common.tokens, each = context.common.experts_of_token;
  auto read = [&](const char* name, const ScheduleContext::Memory& memory, IntArrayRef sizes) {
    return tensor_of(kBatching, name, memory, sizes, at::kInt).to(at::kLong);
  };
  const Tensor all = read("expert_ids_buf", context.ffn.expert_ids, {batches, tokens, each}).reshape(-1);
  const Tensor order = rising_places(all);
  const Tensor sorted = all.index_select(0, order);
  const Tensor used = order.masked_select((sorted >= 0).logical_and(sorted < expert_num));
  const Tensor batch = used.floor_divide(tokens * each);
  return {.experts = all.index_select(0, used),
          .session = read("session_ids_buf", context.ffn.session_ids, {batches}).index_select(0, batch),
          .micro_batch = read("micro_batch_ids_buf", context.ffn.micro_batch_ids, {batches}).index_select(0, batch),
          .token = used.remainder(tokens * each).floor_divide(each),
          .slot = used.remainder(each)};
}

// Experts that have rows, with their numbers of rows, followed by zeros.
Tensor groups_of(const Tensor& experts, int64_t expert_num) {
  const Tensor counts = counts_of(experts, expert_num), order = rising_places((counts == 0).to(at::kInt));
  const Tensor ordered = counts.index_select(0, order);
  return at::stack({order * (ordered > 0), ordered}, 1);
}

Batch ffn_worker_batching(const Tensor& schedule_context, int64_t expert_num, IntArrayRef max_out_shape,
                          int64_t token_dtype, int64_t need_schedule, int64_t) {
  const at::ScalarType type = type_of_rows(token_dtype, max_out_shape);
  TORCH_CHECK_NOT_IMPLEMENTED(need_schedule == 0, kBatching, ": need_schedule is ", need_schedule,
                              ", allowed is 0 on the host: ffn_worker_scheduler waits for other ranks");
  const ScheduleContext context = read_context(kBatching, schedule_context);
  const auto& common = context.common;
  const int64_t sessions = common.sessions, batches = common.micro_batches, tokens = common.tokens;
  const int64_t each = common.experts_of_token, bytes = common.bytes_to_ffn, values = max_out_shape[3];
  const int64_t places = max_out_shape[0] * max_out_shape[1] * max_out_shape[2];
  const int64_t used = values * static_cast<int64_t>(c10::elementSize(type));
  const int64_t behind = type == at::kChar ? static_cast<int64_t>(sizeof(float)) : 0;  // the row's scale
  TORCH_CHECK(used + behind <= bytes, kBatching, ": rows of ", values, " values of ", type, " take ", used + behind,
              " bytes, and those of schedule_context have ", bytes);
  const Chosen chosen = chosen_rows(context, expert_num);
  const int64_t count = chosen.experts.size(0);
  TORCH_CHECK(count <= places, kBatching, ": ", count, " rows are scheduled, and max_out_shape has place for ", places);
  const Tensor data =
      tensor_of(kBatching, "token_data_buf", context.ffn.data, {sessions, batches, tokens, each, bytes}, at::kByte);
  const Tensor rows = data.index({chosen.session, chosen.micro_batch, chosen.token, chosen.slot});
  auto padded = [&](const Tensor& x) { return longer(x, 0, places - count); };
  const Tensor scale = behind == 0 ? at::zeros({count}, at::kFloat)
                                   : rows.narrow(1, used, behind).contiguous().view(at::kFloat).squeeze(1);
  return {padded(rows.narrow(1, 0, used).contiguous().view(type)),
          groups_of(chosen.experts, expert_num),
          padded(chosen.session.to(at::kInt)),
          padded(chosen.micro_batch.to(at::kInt)),
          padded(chosen.token.to(at::kInt)),
          padded(chosen.slot.to(at::kInt)),
          padded(scale),
          at::full({1}, count, at::kLong)};
}

void ffn_to_attention(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      c10::string_view, int64_t, IntArrayRef, IntArrayRef, const OptionalTensor&) {}

}  // namespace

void define_ffn_workers(OperatorLibrary& library) {
  library.add({
      .schema = "npu::ffn_worker_scheduler(Tensor input, *, int sync_group_size=1, int execute_mode=0) -> Tensor",
      .kernel = sizes_only(&ffn_scheduler),
      .definition = "On an NPU: waits, on a rank that computes feed-forward networks, until rows have come from ranks "
                    "that compute attention, and records the batches to compute in the schedule context "
                    "(attention-FFN disaggregation: MegaScale-Infer, Zhu et al., 2025). On the host, calls raise "
                    "NotImplementedError; on meta tensors, the result has the shape and type of input, the schedule "
                    "context of npu_ffn_worker_batching. sync_group_size and execute_mode are ignored.",
  });
  library.add({
      .schema =
          "npu::ffn_worker_scheduler_(Tensor(a!) input, *, int sync_group_size=1, int execute_mode=0) -> Tensor(a!)",
      .kernel = sizes_only(&ffn_scheduler_in_place),
      .definition = "ffn_worker_scheduler that updates and returns input.",
  });
  library.add({
      .schema = "npu::npu_ffn_to_attention(Tensor x, Tensor session_ids, Tensor micro_batch_ids, Tensor token_ids, "
                "Tensor expert_offsets, Tensor actual_token_num, str group, int world_size, int[] "
                "token_info_table_shape, int[] token_data_shape, *, Tensor? attn_rank_table=None) -> ()",
      .kernel = sizes_only(&ffn_to_attention),
      .traits = {.has_effect = true},
      .definition = "Sends the results of experts from a rank that computes feed-forward networks back to the ranks of "
                    "attention, into the token tables of these ranks. x is [Y, H]; session_ids, micro_batch_ids, "
                    "token_ids and expert_offsets, each [Y] in int32, say where each row goes, as "
                    "npu_ffn_worker_batching returns them; actual_token_num [1] is the number of rows to send; "
                    "attn_rank_table holds the rank of each session. There is no result.",
  });
  library.add({
      .schema = "npu::npu_ffn_worker_batching(Tensor schedule_context, int expert_num, int[4] max_out_shape, *, int "
                "token_dtype=0, int need_schedule=0, int layer_num=0) -> (Tensor, Tensor, Tensor, Tensor, Tensor, "
                "Tensor, Tensor, Tensor)",
      .kernel = whole(&ffn_worker_batching, &ffn_worker_batching_meta),
      .definition = "Gathers the rows of the batches that schedule_context says are scheduled, by a stable sort by "
                    "expert. schedule_context holds the 1024 bytes of Ascend's FfnWorkerScheduler: uint32 numbers of "
                    "sessions at byte 0, of micro batches at 4, of tokens at 8, of experts of a token at 12, of bytes "
                    "of a row at 20, and of scheduled batches at 576; and npu memory, as a uint64 address and a uint64 "
                    "size, of the rows [sessions, micro batches, tokens, experts of a token, bytes of a row] at 400, "
                    "and, in int32, of session ids [batches] at 528, micro batch ids [batches] at 544 and expert ids "
                    "[batches, tokens, experts of a token] at 560. max_out_shape is [sessions, tokens, experts of a "
                    "token, H], and Y is the product of the first three. Results, with zeros after the last row: the "
                    "rows [Y, H] in float16 (token_dtype 0), bfloat16 (1) or int8 (2); the experts that have rows, "
                    "each with its number of rows, [expert_num, 2] in int64; the session, micro batch, token, and "
                    "index among the token's experts of each row, four times [Y] in int32; the scale of each row, [Y] "
                    "in float32, which is stored behind int8 rows; and the number of rows, [1] in int64. Rows of "
                    "experts outside [0, expert_num) are left out. need_schedule must be 0; layer_num is ignored.",
  });
}

}  // namespace npugraph::npu_ops
