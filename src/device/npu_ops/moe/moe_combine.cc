// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/moe/moe_combine.h"

#include "device/npu_ops/moe/moe.h"
#include "device/npu_ops/moe/moe_dispatch.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;

// [tokens, 1]: the sum of the weights with which tokens choose one of `count` experts from number `first` on.
Tensor weight_of(const Tensor& expert_ids, const Tensor& expert_scales, int64_t first, int64_t count) {
  const Tensor chosen = (expert_ids >= first).logical_and(expert_ids < first + count);
  return (wide(expert_scales) * chosen).sum(1, /*keepdim=*/true);
}

}  // namespace

Home home_by_places(const ExpertRanks& experts, const Tensor& expand_x, const Tensor& expert_ids, const Tensor& within,
                    const Tensor& ends, const OptionalTensor& mask) {
  const Tensor seats = experts.seats_of(expert_ids, mask);
  const Tensor counts = counts_of(seats, experts.seats() + 1), valid = seats < experts.seats();
  const Tensor starts = (counts.cumsum(0) - counts).index_select(0, seats.reshape(-1)).view_symint(seats.sym_sizes());
  Tensor place = within.to(at::kLong).view_symint(expert_ids.sym_sizes());
  if (experts.shared_slots() > 0) {
    const Tensor shared = valid.slice_symint(1, expert_ids.sym_size(1));
    place = at::cat({place, shared.to(at::kLong).cumsum(0) - 1}, 1);
  }
  return {sent_home(experts, {expand_x}, ends, seats.sym_numel()).rows[0], starts + place, valid};
}

Home home_by_notes(const ExpertRanks& experts, const Tensor& expand_x, const Tensor& expert_ids, const Tensor& notes,
                   const Tensor& ends) {
  const SymInt slots = expert_ids.sym_size(1) + experts.shared_slots(), pairs = expert_ids.sym_size(0) * slots;
  const Tensor of_rows = notes.unflatten_symint(0, {-1, kNotesOfRow}).narrow(1, 1, 2);
  return home_of(sent_home(experts, {expand_x, of_rows}, ends, pairs), expert_ids.sym_size(0), slots);
}

Home home_of(const Arrived& home, const SymInt& tokens, const SymInt& slots) {
  const SymInt pairs = tokens * slots;
  const Tensor table = home.rows[1].to(at::kLong);
  const Tensor row = count_up(table, table.sym_size(0));
  const Tensor pair = table.select(1, 0) * at::Scalar(slots) + table.select(1, 1);
  const Tensor used = row < home.counts.sum();
  const Tensor target = at::where(used, pair, at::scalar_tensor(at::Scalar(pairs), pair.options()));
  const Tensor places = row.new_full_symint({pairs + 1}, -1).scatter(0, target, row).slice_symint(0, 0, pairs);
  const Tensor shaped = places.view_symint({tokens, slots});
  return {home.rows[0], shaped, shaped >= 0};
}

void SpecialExperts::check(const char* op) const {
  TORCH_CHECK(copy + constant == 0 || ori_x, op, ": copy_expert_num and const_expert_num ask for ori_x");
  if (constant == 0) return;
  TORCH_CHECK(alpha_1 && alpha_2 && v, op,
              ": const_expert_num asks for const_expert_alpha_1, const_expert_alpha_2 and const_expert_v");
  for (const OptionalTensor* alpha : {&alpha_1, &alpha_2})
    TORCH_CHECK((*alpha)->sym_numel() == constant, op, ": const_expert_alpha_1 and const_expert_alpha_2 must have ",
                constant, " numbers, got ", (*alpha)->sym_numel());
}

Tensor combined(const ExpertRanks& experts, const Home& home, const Tensor& expert_ids, const Tensor& expert_scales,
                const OptionalTensor& shared_x, const SpecialExperts& special) {
  const Tensor parts = rows_or_zeros(wide(home.rows), home.places, home.valid);
  Tensor weights = wide(expert_scales);
  if (experts.shared_slots() > 0)
    weights = at::cat({weights, weights.new_ones_symint({weights.sym_size(0), experts.shared_slots()})}, 1);
  Tensor out = weighted(parts, weights).sum(1);
  if (shared_x) out = out + wide(*shared_x).reshape_symint(out.sym_sizes());
  if (special.copy + special.constant == 0) return out;
  const Tensor token = wide(*special.ori_x).reshape_symint(out.sym_sizes());
  int64_t first = experts.experts + special.zero;
  if (special.copy > 0) out = out + token * weight_of(expert_ids, expert_scales, first, special.copy);
  first += special.copy;
  for (int64_t i = 0; i < special.constant; ++i) {
    const Tensor alpha_1 = wide(*special.alpha_1).reshape(-1)[i], alpha_2 = wide(*special.alpha_2).reshape(-1)[i];
    const Tensor row = alpha_1 * token + alpha_2 * wide(*special.v)[i];
    out = out + row * weight_of(expert_ids, expert_scales, first + i, 1);
  }
  return out;
}

}  // namespace npugraph::npu_ops
