// SPDX-License-Identifier: Apache-2.0
// Tokens to the experts of all ranks and back, in two calls each, between which a program computes other things: the
// set-up orders the rows, and the tear-down sends them. comm_cmd_info, int32, is passed from the first to the second.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/call_arguments.h"
#include "device/npu_ops/moe/moe.h"
#include "device/npu_ops/moe/moe_ranks.h"
#include "device/npu_ops/quantisation/microscaling.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using c10::SymInt;
using torch::jit::Stack;

constexpr int64_t kScaleBytes = 4;  // of the scale after each quantised row
// Rows are messages, whose sizes are multiples of these; what is behind their values is zero.
constexpr int64_t kPlainRow = 256, kQuantisedRow = 512, kReturningRow = 512, kQuantisedValues = 32;

SymInt rounded_up(const SymInt& size, int64_t multiple) { return (size + multiple - 1) / multiple * multiple; }

// Where the scale of a quantised row of `size` values begins.
SymInt place_of_scale(const SymInt& size) { return rounded_up(size, kQuantisedValues); }

SymInt row_size(const SymInt& size, int64_t quant_mode) {
  return quant_mode == 0 ? rounded_up(size, kPlainRow) : rounded_up(place_of_scale(size) + kScaleBytes, kQuantisedRow);
}
constexpr int64_t kNotes = 4;  // numbers for each row: rank, token, slot, and whether the row exists

Dispatch dispatch_of(const CallArguments& call, bool notes_of_rows) {
  const Dispatch how = {.experts = expert_ranks_of(call),
                        .quant_mode = call.integer({"quant_mode"}),
                        .global_bs = call.integer({"global_bs"}),
                        .nums_type = call.integer({"expert_token_nums_type"}, 1),
                        .notes_of_rows = notes_of_rows,
                        .y_dtype = std::nullopt};
  check_choice(call.op(), "quant_mode", how.quant_mode, {0, 2});
  return how;
}

// comm_cmd_info: numbers for rows, followed by the counts of ranks or seats.
Tensor info_of(const Tensor& rows, const Tensor& counts) {
  return at::cat({rows.reshape(-1).to(at::kInt), counts.reshape(-1).to(at::kInt)});
}
std::tuple<Tensor, Tensor> from_info(const char* op, const Tensor& info, int64_t counts) {
  check_dims(op, "comm_cmd_info", info, 1, 1);
  const Tensor wide_info = info.to(at::kLong);
  const SymInt rows = info.sym_size(0) - counts;
  return {wide_info.slice_symint(0, 0, rows), wide_info.slice_symint(0, rows)};
}

void dispatch_setup(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Dispatch how = dispatch_of(call, /*notes_of_rows=*/false);
  const Outgoing out = outgoing(how, call.tensor({"x"}), call.tensor({"expert_ids"}), call.given_tensor({"scales"}),
                                call.given_tensor({"x_active_mask"}));
  Tensor y = out.values.values;
  const SymInt size = y.sym_size(1);
  if (how.quant_mode != 0)
    y = at::cat({zero_padded(y, 1, place_of_scale(size)), out.values.scale.unsqueeze(-1).view(at::kChar)}, 1);
  call.give(zero_padded(y, 1, row_size(size, how.quant_mode)), out.within.reshape(-1), info_of(out.pairs, out.counts));
}

// The set-up of combine knows rows by these notes alone, so the notes also say which rows exist.
Tensor with_marks(const Tensor& notes, const Tensor& total) {
  const Tensor rows = notes.unflatten_symint(0, {-1, kNotesOfRow});
  const Tensor used = (count_up(rows, rows.sym_size(0)) < total).to(at::kInt).unsqueeze(1);
  const Tensor marked = at::cat({rows.narrow(1, 0, kNotes - 1), used}, 1);
  return at::constant_pad_nd(marked, {0, kNotesOfRow - kNotes}).reshape(-1);
}

void dispatch_teardown(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Dispatch how = dispatch_of(call, /*notes_of_rows=*/true);
  const Tensor &x = call.tensor({"x"}), &y = call.tensor({"y"}), &expert_ids = call.tensor({"expert_ids"});
  how.experts.check();
  check_dims(call.op(), "y", y, 2, 2);
  const SymInt size = x.sym_size(-1);
  const SymInt in_row = row_size(size, how.quant_mode);
  TORCH_CHECK(y.sym_size(1) == in_row, call.op(), ": y has rows of ", y.sym_size(1), " values, and those of x, of ",
              size, ", give ", in_row, " with quant_mode ", how.quant_mode);
  Outgoing out;
  std::tie(out.pairs, out.counts) = from_info(call.op(), call.tensor({"comm_cmd_info"}), how.experts.seats());
  out.values.values = y.slice_symint(1, 0, size);
  if (how.quant_mode != 0) {  // a copy even without rows, whose strides may be arbitrary
    const Tensor bytes = y.narrow_symint(1, place_of_scale(size), kScaleBytes).clone(at::MemoryFormat::Contiguous);
    out.values.scale = bytes.view(at::kFloat).squeeze(-1);
  }
  const Dispatched made = delivered(how, out, tokens_of_all(how, x), expert_ids.sym_size(1), std::nullopt);
  call.give(std::get<0>(made), std::get<1>(made), with_marks(std::get<2>(made), std::get<5>(made)), std::get<3>(made));
}

// Orders rows by the ranks that they return to, with token and slot of each.
void combine_setup(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const ExpertRanks ranks = expert_ranks_of(call);
  ranks.check();
  const Tensor& expand_x = call.tensor({"expand_x"});
  const Tensor notes = call.tensor({"assist_info_for_combine"}).unflatten_symint(0, {-1, kNotesOfRow});
  TORCH_CHECK(notes.sym_size(0) == expand_x.sym_size(0), call.op(), ": assist_info_for_combine is of ",
              notes.sym_size(0), " rows, expand_x has ", expand_x.sym_size(0));
  const Tensor used = notes.select(1, kNotes - 1).ne(0);
  const Tensor key = notes.select(1, 0).to(at::kLong).masked_fill(used.logical_not(), ranks.size);
  const Tensor order = rising_places(key);
  const Tensor counts = counts_of(key, ranks.size + 1).narrow(0, 0, ranks.size);
  const Tensor rows = zero_padded(expand_x, 1, rounded_up(expand_x.sym_size(1), kReturningRow));
  call.give(rows.index_select(0, order), info_of(notes.narrow(1, 1, 2).index_select(0, order), counts));
}

void combine_teardown(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const ExpertRanks ranks = expert_ranks_of(call);
  ranks.check();
  const Tensor &expand_x = call.tensor({"expand_x"}), &expert_ids = call.tensor({"expert_ids"});
  const Tensor& given = call.tensor({"quant_expand_x"});
  check_dims(call.op(), "expert_ids", expert_ids, 2, 2);
  const SymInt size = expand_x.sym_size(1), in_row = rounded_up(size, kReturningRow);
  TORCH_CHECK(given.sym_size(1) == in_row, call.op(), ": quant_expand_x has rows of ", given.sym_size(1),
              " values, and those of expand_x, of ", size, ", give ", in_row);
  const Tensor rows = given.slice_symint(1, 0, size);
  const auto [notes, counts] = from_info(call.op(), call.tensor({"comm_cmd_info"}), ranks.size);
  const SymInt tokens = expert_ids.sym_size(0), slots = expert_ids.sym_size(1) + ranks.shared_slots();
  Arrived home = {{rows, notes.unflatten(0, {-1, 2})}, counts};
  if (!ranks.is_alone()) home = exchanged(ranks.ranks(), std::move(home.rows), counts.unsqueeze(1), tokens * slots);
  const Tensor out = combined(ranks, home_of(home, tokens, slots), expert_ids, call.tensor({"expert_scales"}),
                              call.given_tensor({"shared_expert_x"}));
  call.give(out.to(expand_x.scalar_type()));
}

}  // namespace

void define_moe_setup(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_moe_distribute_dispatch_setup(Tensor x, Tensor expert_ids, str group_ep, int ep_world_size, "
                "int ep_rank_id, int moe_expert_num, *, Tensor? scales=None, Tensor? x_active_mask=None, int "
                "expert_shard_type=0, int shared_expert_num=1, int shared_expert_rank_num=0, int quant_mode=0, int "
                "global_bs=0, int comm_type=0, str comm_alg=\"\") -> (Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&dispatch_setup>()),
      .definition = "First half of npu_moe_distribute_dispatch_v2, which orders and quantises rows; "
                    "npu_moe_distribute_dispatch_teardown sends them, so that a program can compute something else in "
                    "between. The arguments are those of npu_moe_distribute_dispatch_v2; quant_mode is 0 or 2, and "
                    "comm_type and comm_alg are ignored. Results: y, the rows ordered by destination rank and expert, "
                    "with zeros up to a multiple of 256 values, or with quant_mode 2 int8 rows, each followed by the 4 "
                    "bytes of its float32 scale at the next multiple of 32 and zeros up to a multiple of 512; the "
                    "position of each pair among those of its expert, [N * K] in int32; and comm_cmd_info in int32, "
                    "the pair of each row (-1 for none), then the number of rows for each rank of a shared expert and "
                    "for each other expert.",
  });
  library.add({
      .schema =
          "npu::npu_moe_distribute_dispatch_teardown(Tensor x, Tensor y, Tensor expert_ids, Tensor comm_cmd_info, str "
          "group_ep, int ep_world_size, int ep_rank_id, int moe_expert_num, *, int expert_shard_type=0, int "
          "shared_expert_num=1, int shared_expert_rank_num=0, int quant_mode=0, int global_bs=0, int "
          "expert_token_nums_type=1, int comm_type=0, str comm_alg=\"\") -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&dispatch_teardown>()),
      .definition = "Second half of npu_moe_distribute_dispatch_v2: sends the rows y that "
                    "npu_moe_distribute_dispatch_setup ordered, with its comm_cmd_info. x and expert_ids give only "
                    "sizes, and the other arguments are those of the first half; comm_type and comm_alg are ignored. "
                    "Results: expand_x, dynamic_scales, assist_info_for_combine and expert_token_nums of "
                    "npu_moe_distribute_dispatch_v2. The fourth number of each row of assist_info_for_combine is 1 if "
                    "the row arrived, because npu_moe_distribute_combine_setup needs it.",
  });
  library.add({
      .schema = "npu::npu_moe_distribute_combine_setup(Tensor expand_x, Tensor expert_ids, Tensor "
                "assist_info_for_combine, str group_ep, int ep_world_size, int ep_rank_id, int moe_expert_num, *, int "
                "expert_shard_type=0, int shared_expert_num=1, int shared_expert_rank_num=0, int global_bs=0, int "
                "comm_quant_mode=0, int comm_type=0, str comm_alg=\"\") -> (Tensor, Tensor)",
      .kernel = parts(boxed<&combine_setup>()),
      .definition = "First half of npu_moe_distribute_combine_v2, which orders the results of experts, expand_x [A, "
                    "H], by the ranks of their tokens; npu_moe_distribute_combine_teardown sends them. "
                    "assist_info_for_combine is that of npu_moe_distribute_dispatch_teardown. Results: the rows, with "
                    "zeros up to a multiple of 512 values; and comm_cmd_info in int32, the token and the index of the "
                    "token's expert for each row, then the number of rows for each rank. expert_ids, global_bs, "
                    "comm_quant_mode, comm_type and comm_alg are ignored.",
  });
  library.add({
      .schema = "npu::npu_moe_distribute_combine_teardown(Tensor expand_x, Tensor quant_expand_x, Tensor expert_ids, "
                "Tensor expand_idx, Tensor expert_scales, Tensor comm_cmd_info, str group_ep, int ep_world_size, int "
                "ep_rank_id, int moe_expert_num, *, Tensor? x_active_mask=None, Tensor? shared_expert_x=None, int "
                "expert_shard_type=0, int shared_expert_num=1, int shared_expert_rank_num=0, int global_bs=0, int "
                "comm_quant_mode=0, int comm_type=0, str comm_alg=\"\") -> Tensor",
      .kernel = parts(boxed<&combine_teardown>()),
      .definition = "Second half of npu_moe_distribute_combine_v2: sends the rows quant_expand_x that "
                    "npu_moe_distribute_combine_setup ordered, with its comm_cmd_info, and adds them up, times "
                    "expert_scales [N, K], in float32. Rows of shared experts and shared_expert_x [N, H] are added. "
                    "expert_ids [N, K] and expand_x [A, H] give only sizes and the type. The result is [N, H] in the "
                    "type of expand_x. expand_idx, x_active_mask, global_bs, comm_quant_mode, comm_type and comm_alg "
                    "are ignored.",
  });
}

}  // namespace npugraph::npu_ops
