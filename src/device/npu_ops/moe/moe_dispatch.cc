// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/moe/moe_dispatch.h"

#include <utility>
#include <vector>

#include "device/npu_ops/moe/moe.h"
#include "device/npu_ops/quantisation/microscaling.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;

constexpr int64_t kTile = 128;  // values with one scale in quant_mode 3

void check_dispatch(const Dispatch& how, const Tensor& x, const OptionalTensor& scales) {
  const ExpertRanks& experts = how.experts;
  experts.check();
  check_floating(experts.op, "x", x);
  check_choice(experts.op, "quant_mode", how.quant_mode, {0, 1, 2, 3, 4});
  check_choice(experts.op, "expert_token_nums_type", how.nums_type, {0, 1});
  TORCH_CHECK(how.quant_mode != 1 || scales, experts.op, ": quant_mode 1 asks for scales");
  TORCH_CHECK(how.quant_mode < 3 || how.y_dtype, experts.op, ": quant_mode ", how.quant_mode, " asks for y_dtype");
  if (how.global_bs == 0) return;
  TORCH_CHECK(how.global_bs % experts.size == 0 && x.sym_size(0) <= how.global_bs / experts.size, experts.op,
              ": global_bs is ", how.global_bs, ", but x has ", x.sym_size(0), " rows on one of ", experts.size,
              " ranks");
}

// Multiplies rows by `scales` before they are quantised. `scales` is one number, one for each column, or a row of these
// for each shared expert, then for each other one.
Tensor scaled_rows(const Dispatch& how, const Tensor& rows, const OptionalTensor& scales, const Tensor& seats) {
  const ExpertRanks& experts = how.experts;
  if (!scales) return wide(rows);
  if (scales->dim() < 2) return wide(rows) * wide(*scales);
  const int64_t shared = experts.shared_slots();
  TORCH_CHECK(scales->sym_size(0) == shared + experts.experts, experts.op, ": scales has ", scales->sym_size(0),
              " rows, allowed is one for each of ", shared + experts.experts, " experts");
  Tensor expert = seats.clamp_max(experts.seats() - 1) - (experts.shared_ranks - shared);
  if (shared > 0) {
    const Tensor of_shared = seats.floor_divide(experts.ranks_of_shared());
    expert = at::where(seats < experts.shared_ranks, of_shared, expert);
  }
  return wide(rows) * wide(*scales).index_select(0, expert);
}

Quantised by_tiles(const char* op, const Tensor& exact, const QuantType& type) {
  const SymInt size = exact.sym_size(-1), tiles = (size + kTile - 1) / kTile;
  const Tensor whole = zero_padded(exact, 1, tiles * kTile).unflatten_symint(-1, {tiles, kTile});
  const Quantised out = dynamically_quantised(op, whole, -1, type);
  return {out.values.flatten(-2).narrow_symint(-1, 0, size), out.scale};
}

Quantised quantised_rows(const Dispatch& how, const Tensor& rows, const OptionalTensor& scales, const Tensor& seats) {
  const char* op = how.experts.op;
  const Tensor no_scale = rows.new_empty({0}, at::kFloat);
  if (how.quant_mode == 0) return {rows, no_scale};
  const Tensor exact = scaled_rows(how, rows, scales, seats);
  if (how.quant_mode == 4) {
    const Blocks blocks = to_blocks(op, exact, 1, element_type(op, "y_dtype", *how.y_dtype));
    return {blocks.values, blocks.scale.flatten(1)};
  }
  const QuantType type = quant_type(op, "y_dtype", how.y_dtype);
  if (how.quant_mode == 3) return by_tiles(op, exact, type);
  return how.quant_mode == 1 ? Quantised{quantised(op, exact, type), no_scale}
                             : dynamically_quantised(op, exact, -1, type);
}

// torch has no index_select of floats of eight bits, so they are moved as bytes.
Tensor as_bytes(const Tensor& rows) {
  return rows.is_floating_point() && rows.element_size() == 1 ? rows.view(at::kByte) : rows;
}
Tensor as_before(const Tensor& bytes, const Tensor& before) {
  return bytes.scalar_type() == before.scalar_type() ? bytes : bytes.view(before.scalar_type());
}

// The rank, token and slot of each row.
Tensor notes_of_rows(const Tensor& pairs, int64_t rank, const SymInt& slots) {
  const Tensor some = pairs >= 0;
  const Tensor pair = pairs.clamp_min(0);
  const Tensor token = pair.floor_divide(at::Scalar(slots)) * some;
  const Tensor slot = pair.remainder(at::Scalar(slots)) * some;
  return at::stack({some * rank, token, slot}, 1).to(at::kInt);
}

// The weight of each slot; shared experts have 1.
Tensor weights_of_slots(const ExpertRanks& experts, const Tensor& expert_scales) {
  const Tensor chosen = wide(expert_scales);
  if (experts.shared_slots() == 0) return chosen.reshape({-1, 1});
  const SymInt tokens = chosen.sym_size(0);
  return at::cat({chosen, chosen.new_ones_symint({tokens, experts.shared_slots()})}, 1).reshape({-1, 1});
}

// `pairs` for `rows` rows; -1 for rows without a pair.
Tensor resized(const Tensor& pairs, const SymInt& rows) {
  return longer(pairs, 0, (rows - pairs.sym_size(0)).max(0), -1).slice_symint(0, 0, rows);
}

// `counts` of the rows of each seat and rank, with zeros where servers of eight devices note the ways of rows: two for
// each pair of each of the other servers.
Tensor with_ways(const Tensor& counts, int64_t ranks, const SymInt& pairs) {
  constexpr int64_t kRanksOfServer = 8;
  return longer(counts, 0, 2 * pairs * (ranks / kRanksOfServer));
}

// The position of each of `keys` among the equal ones, int32.
Tensor places_among_equals(const Tensor& keys, const Tensor& order, const Tensor& counts) {
  const Tensor starts = counts.cumsum(0) - counts;
  const Tensor within = count_up(order, order.sym_size(0)) - starts.index_select(0, keys.index_select(0, order));
  return within.index_select(0, inverse_of(order)).to(at::kInt);
}

}  // namespace

SymInt tokens_of_all(const Dispatch& how, const Tensor& x) {
  return how.global_bs == 0 ? x.sym_size(0) * how.experts.size : SymInt(how.global_bs);
}

Outgoing outgoing(const Dispatch& how, const Tensor& x, const Tensor& expert_ids, const OptionalTensor& scales,
                  const OptionalTensor& mask) {
  check_dispatch(how, x, scales);
  const ExpertRanks& experts = how.experts;
  const Tensor seats = experts.seats_of(expert_ids, mask), keys = seats.reshape(-1);
  const SymInt k = expert_ids.sym_size(1), slots = seats.sym_size(1);
  const Tensor order = rising_places(keys);
  const Tensor all_counts = counts_of(keys, experts.seats() + 1);
  const Tensor going = keys.index_select(0, order) < experts.seats();
  const Tensor sorted = order.masked_fill(going.logical_not(), -1);
  const Tensor pairs = experts.is_alone() ? resized(sorted, experts.capacity(tokens_of_all(how, x), k)) : sorted;
  const Tensor rows = rows_or_zeros(x, pairs.floor_divide(at::Scalar(slots)), pairs >= 0);
  Outgoing out = {.pairs = pairs, .counts = all_counts.narrow(0, 0, experts.seats()), .within = {}, .values = {}};
  out.values = quantised_rows(how, rows, scales, keys.index_select(0, pairs.clamp_min(0)));
  if (!how.notes_of_rows)
    out.within = places_among_equals(keys, order, all_counts).view_symint({-1, slots}).slice_symint(1, 0, k);
  return out;
}

Dispatched delivered(const Dispatch& how, const Outgoing& outgoing, const SymInt& tokens, const SymInt& k,
                     const OptionalTensor& expert_scales) {
  const ExpertRanks& experts = how.experts;
  const Quantised& values = outgoing.values;
  const Tensor& pairs = outgoing.pairs;
  // The tensors that are sent with rows. Results that are not sent are empty.
  const Tensor nothing = pairs.new_empty({0}, at::kFloat);
  std::vector<Tensor> going_rows = {as_bytes(values.values)};
  if (how.quant_mode >= 2) going_rows.push_back(as_bytes(values.scale));
  if (how.notes_of_rows) going_rows.push_back(notes_of_rows(pairs, experts.rank, k + experts.shared_slots()));
  if (expert_scales)
    going_rows.push_back(rows_or_zeros(weights_of_slots(experts, *expert_scales), pairs, pairs >= 0).squeeze(-1));
  const Arrived arrived = sent_to_experts(experts, std::move(going_rows), outgoing.counts, tokens, k);
  auto next = arrived.rows.begin();

  const Tensor expand_x = as_before(*next++, values.values);
  const Tensor row_scales = how.quant_mode >= 2 ? as_before(*next++, values.scale)
                                                : expand_x.new_zeros_symint({expand_x.sym_size(0)}, at::kFloat);
  const Tensor notes = how.notes_of_rows ? at::constant_pad_nd(*next++, {0, kNotesOfRow - 3}) : outgoing.within;
  const Tensor nums = arrived.counts.sum(0);
  const Tensor ends = arrived.counts.t().reshape(-1).cumsum(0).to(at::kInt);
  return {expand_x,
          row_scales,
          notes.reshape(-1),
          how.nums_type == 0 ? nums.cumsum(0) : nums,
          expert_scales ? with_ways(ends, experts.size, tokens * k) : ends,
          nums.sum(0, /*keepdim=*/true).to(at::kInt),
          expert_scales ? *next : nothing};
}

Dispatched dispatched(const Dispatch& how, const Tensor& x, const Tensor& expert_ids, const OptionalTensor& scales,
                      const OptionalTensor& mask, const OptionalTensor& expert_scales) {
  return delivered(how, outgoing(how, x, expert_ids, scales, mask), tokens_of_all(how, x), expert_ids.sym_size(1),
                   expert_scales);
}

}  // namespace npugraph::npu_ops
