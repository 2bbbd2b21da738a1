// SPDX-License-Identifier: Apache-2.0
// Tokens to the experts of all ranks and back. The host has these for one rank, which has all experts: a sort and its inverse.
#include <algorithm>
#include <tuple>

#include "torch/npu_ops/families.h"
#include "torch/npu_ops/moe.h"
#include "torch/npu_ops/quantisation.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Seven = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

constexpr int64_t kNotesOfRow =
    128;  // int32 of assist_info for each row: rank, token, number of the token's expert, zeros

struct Ranks {
  const char* op;
  int64_t ep_size, ep_rank, tp_size, shared_ranks, experts;
};

void check_ranks(const Ranks& ranks, const Tensor& expert_ids) {
  TORCH_CHECK(ranks.ep_size == 1 && ranks.ep_rank == 0, ranks.op, ": ep_world_size is ", ranks.ep_size,
              " and ep_rank_id ", ranks.ep_rank, ", allowed are 1 and 0: the host has this operator for one rank");
  TORCH_CHECK(ranks.tp_size <= 1, ranks.op, ": tp_world_size is ", ranks.tp_size, ", allowed are 0 and 1");
  TORCH_CHECK(ranks.shared_ranks == 0, ranks.op, ": shared_expert_rank_num is ", ranks.shared_ranks, ", allowed is 0");
  TORCH_CHECK(ranks.experts >= 1, ranks.op, ": moe_expert_num is ", ranks.experts, ", allowed are 1 and more");
  check_dims(ranks.op, "expert_ids", expert_ids, 2, 2);
}

// Which pairs go to an expert of a rank.
Tensor active_pairs(const Tensor& expert_ids, int64_t experts, const OptionalTensor& mask) {
  const Tensor real = expert_ids < experts;
  if (!mask) return real;
  const Tensor given = mask->ne(0);
  return real.logical_and(given.dim() == 1 ? given.unsqueeze(1) : given);
}

struct Dispatch {
  Ranks ranks;
  int64_t quant_mode, global_bs, nums_type;
  bool notes_of_rows;  // what combine needs is one entry of assist_info for each row, and not one place for each pair
};

// What combine needs: for each pair its place among the pairs of its expert.
Tensor places_of_pairs(const Tensor& keys, const Tensor& order, const Tensor& counts) {
  const Tensor starts = counts.cumsum(0) - counts;
  const Tensor within = count_up(order, order.sym_size(0)) - starts.index_select(0, keys.index_select(0, order));
  return within.index_select(0, inverse_of(order)).to(at::kInt);
}

// The same: for each row its pair.
Tensor notes_of_rows(const Tensor& pairs, const SymInt& k) {
  const Tensor some = pairs >= 0;
  const Tensor pair = pairs.clamp_min(0);
  const Tensor token = pair.floor_divide(at::Scalar(k)) * some;
  const Tensor notes = at::stack({at::zeros_like(token), token, pair.remainder(at::Scalar(k)) * some}, 1);
  return at::constant_pad_nd(notes, {0, kNotesOfRow - 3}).to(at::kInt).reshape(-1);
}

// The pair of each of `rows` rows, -1 where there is none.
Tensor resized(const Tensor& pairs, const SymInt& rows) {
  return longer(pairs, 0, (rows - pairs.sym_size(0)).max(0), -1).slice_symint(0, 0, rows);
}

Seven dispatched(const Dispatch& how, const Tensor& x, const Tensor& expert_ids, const OptionalTensor& scales,
                 const OptionalTensor& mask, const OptionalTensor& expert_scales) {
  const char* op = how.ranks.op;
  const int64_t experts = how.ranks.experts;
  check_ranks(how.ranks, expert_ids);
  check_floating(op, "x", x);
  check_choice(op, "quant_mode", how.quant_mode, {0, 2});
  check_choice(op, "expert_token_nums_type", how.nums_type, {0, 1});
  TORCH_CHECK(how.global_bs == 0 || x.sym_size(0) <= how.global_bs, op, ": global_bs is ", how.global_bs,
              ", but x has ", x.sym_size(0), " rows");
  const SymInt k = expert_ids.sym_size(1);
  const Tensor active = active_pairs(expert_ids, experts, mask).reshape(-1);
  const Tensor keys = expert_ids.reshape(-1).to(at::kLong).masked_fill(active.logical_not(), experts);
  const Tensor order = rising_places(keys);
  const Tensor all_counts = counts_of(keys, experts + 1);
  const Tensor counts = all_counts.narrow(0, 0, experts);
  const Tensor sorted = order.masked_fill(active.index_select(0, order).logical_not(), -1);
  const Tensor pairs = resized(sorted, (how.global_bs == 0 ? x.sym_size(0) : SymInt(how.global_bs)) * k.min(experts));
  const Tensor valid = pairs >= 0;
  Tensor rows = rows_or_zeros(x, pairs.floor_divide(at::Scalar(k)), valid), row_scales = x.new_empty({0}, at::kFloat);
  if (how.quant_mode == 2) {
    const Tensor expert = keys.index_select(0, pairs.clamp_min(0)).clamp_max(experts - 1);
    const Tensor exact = scales ? wide(rows) * wide(*scales).index_select(0, expert) : wide(rows);
    const Quantised q = dynamically_quantised(op, exact, -1, QuantType{});
    rows = q.values;
    row_scales = q.scale;
  }
  const Tensor weights = expert_scales ? rows_or_zeros(wide(*expert_scales).reshape({-1, 1}), pairs, valid).squeeze(-1)
                                       : x.new_empty({0}, at::kFloat);
  return {rows,
          row_scales,
          how.notes_of_rows ? notes_of_rows(pairs, k) : places_of_pairs(keys, order, all_counts),
          how.nums_type == 0 ? counts.cumsum(0) : counts.clone(),
          counts.cumsum(0).to(at::kInt),
          counts.sum(0, /*keepdim=*/true).to(at::kInt),
          weights};
}

Seven moe_distribute_dispatch(const Tensor& x, const Tensor& expert_ids, c10::string_view, int64_t ep_size,
                              int64_t ep_rank, int64_t experts, const OptionalTensor& scales,
                              const OptionalTensor& mask, const OptionalTensor& expert_scales, c10::string_view,
                              int64_t tp_size, int64_t, int64_t, int64_t, int64_t shared_ranks, int64_t quant_mode,
                              int64_t global_bs, int64_t nums_type) {
  const Ranks ranks = {"npu_moe_distribute_dispatch", ep_size, ep_rank, tp_size, shared_ranks, experts};
  return dispatched({ranks, quant_mode, global_bs, nums_type, false}, x, expert_ids, scales, mask, expert_scales);
}

Seven moe_distribute_dispatch_v2(const Tensor& x, const Tensor& expert_ids, c10::string_view, int64_t ep_size,
                                 int64_t ep_rank, int64_t experts, const OptionalTensor& scales,
                                 const OptionalTensor& mask, const OptionalTensor& expert_scales,
                                 const OptionalTensor& elastic_info, const OptionalTensor&, c10::string_view,
                                 int64_t tp_size, int64_t, int64_t, int64_t, int64_t shared_ranks, int64_t quant_mode,
                                 int64_t global_bs, int64_t nums_type, c10::string_view, int64_t, int64_t, int64_t,
                                 std::optional<int64_t>, std::optional<int64_t>, std::optional<int64_t>) {
  const Ranks ranks = {"npu_moe_distribute_dispatch_v2", ep_size, ep_rank, tp_size, shared_ranks, experts};
  TORCH_CHECK(!elastic_info, ranks.op, ": elastic_info is given, which one rank has no use for");
  return dispatched({ranks, quant_mode, global_bs, nums_type, true}, x, expert_ids, scales, mask, expert_scales);
}

// The row of each pair and whether it has one.
struct Rows {
  Tensor places, valid;
};

Rows rows_by_expert(const Tensor& expert_ids, const Tensor& within, const Tensor& ends, const Tensor& active) {
  const Tensor starts = at::cat({ends.new_zeros({1}), ends.slice(0, 0, -1)}).to(at::kLong);
  const Tensor expert = expert_ids.to(at::kLong).masked_fill(active.logical_not(), 0);
  const Tensor first = starts.index_select(0, expert.reshape(-1)).view_symint(expert_ids.sym_sizes());
  return {first + within.to(at::kLong).view_symint(expert_ids.sym_sizes()), active};
}

Rows rows_by_notes(const Tensor& expert_ids, const Tensor& notes, const Tensor& ends) {
  const Tensor table = notes.to(at::kLong).unflatten_symint(0, {-1, kNotesOfRow});
  const SymInt k = expert_ids.sym_size(1), pairs = expert_ids.sym_numel();
  const Tensor row = count_up(notes, table.sym_size(0));
  const Tensor pair = table.select(1, 1) * at::Scalar(k) + table.select(1, 2);
  const Tensor used = row < ends.select(0, -1);
  const Tensor target = at::where(used, pair, at::scalar_tensor(at::Scalar(pairs), pair.options()));
  const Tensor places = row.new_full_symint({pairs + 1}, -1).scatter(0, target, row).slice_symint(0, 0, pairs);
  const Tensor shaped = places.view_symint(expert_ids.sym_sizes());
  return {shaped, shaped >= 0};
}

// Kinds of experts after those of ranks, by their numbers: they give zeros, then the token itself.
struct Special {
  int64_t zero_experts = 0, copy_experts = 0, const_experts = 0;
};

void check_special(const char* op, const Special& special, const OptionalTensor& ori_x) {
  TORCH_CHECK(special.const_experts == 0, op, ": const_expert_num is ", special.const_experts, ", allowed is 0");
  TORCH_CHECK(special.copy_experts == 0 || ori_x, op, ": copy_expert_num asks for ori_x");
}

Tensor combined(const Rows& rows, const Tensor& expand_x, const Tensor& expert_scales, const OptionalTensor& shared) {
  const Tensor parts = rows_or_zeros(wide(expand_x), rows.places, rows.valid);
  const Tensor out = (parts * wide(expert_scales).unsqueeze(-1)).sum(1);
  return shared ? out + wide(*shared).reshape_symint(out.sym_sizes()) : out;
}

Tensor with_copies(const Tensor& out, const Ranks& ranks, const Special& special, const Tensor& expert_ids,
                   const Tensor& expert_scales, const OptionalTensor& ori_x) {
  if (special.copy_experts == 0) return out;
  const int64_t first = ranks.experts + special.zero_experts;
  const Tensor copies = (expert_ids >= first).logical_and(expert_ids < first + special.copy_experts);
  return out + wide(*ori_x).reshape_symint(out.sym_sizes()) * (wide(expert_scales) * copies).sum(1, true);
}

Tensor moe_distribute_combine(const Tensor& expand_x, const Tensor& expert_ids, const Tensor& expand_idx,
                              const Tensor& ep_send_counts, const Tensor& expert_scales, c10::string_view,
                              int64_t ep_size, int64_t ep_rank, int64_t experts, const OptionalTensor&,
                              const OptionalTensor& mask, const OptionalTensor&, const OptionalTensor&,
                              const OptionalTensor&, const OptionalTensor&, const OptionalTensor& shared,
                              c10::string_view, int64_t tp_size, int64_t, int64_t, int64_t, int64_t shared_ranks,
                              int64_t, int64_t, int64_t, int64_t) {
  const Ranks ranks = {"npu_moe_distribute_combine", ep_size, ep_rank, tp_size, shared_ranks, experts};
  check_ranks(ranks, expert_ids);
  const Tensor active = active_pairs(expert_ids, experts, mask);
  const Rows rows = rows_by_expert(expert_ids, expand_idx, ep_send_counts, active);
  return combined(rows, expand_x, expert_scales, shared).to(expand_x.scalar_type());
}

Tensor moe_distribute_combine_v2(const Tensor& expand_x, const Tensor& expert_ids, const Tensor& notes,
                                 const Tensor& ep_send_counts, const Tensor& expert_scales, c10::string_view,
                                 int64_t ep_size, int64_t ep_rank, int64_t experts, const OptionalTensor&,
                                 const OptionalTensor&, const OptionalTensor&, const OptionalTensor& shared,
                                 const OptionalTensor&, const OptionalTensor& ori_x, const OptionalTensor&,
                                 const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, c10::string_view,
                                 int64_t tp_size, int64_t, int64_t, int64_t, int64_t shared_ranks, int64_t, int64_t,
                                 c10::string_view, int64_t zero_experts, int64_t copy_experts, int64_t const_experts) {
  const Ranks ranks = {"npu_moe_distribute_combine_v2", ep_size, ep_rank, tp_size, shared_ranks, experts};
  const Special special = {zero_experts, copy_experts, const_experts};
  check_ranks(ranks, expert_ids);
  check_special(ranks.op, special, ori_x);
  const Tensor sum = combined(rows_by_notes(expert_ids, notes, ep_send_counts), expand_x, expert_scales, shared);
  return with_copies(sum, ranks, special, expert_ids, expert_scales, ori_x).to(expand_x.scalar_type());
}

Three moe_distribute_combine_add_rms_norm(const Tensor& expand_x, const Tensor& expert_ids, const Tensor& notes,
                                          const Tensor& ep_send_counts, const Tensor& expert_scales,
                                          const Tensor& residual_x, const Tensor& gamma, c10::string_view,
                                          int64_t ep_size, int64_t ep_rank, int64_t experts, const OptionalTensor&,
                                          const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                                          const OptionalTensor&, const OptionalTensor&, const OptionalTensor& shared,
                                          const OptionalTensor&, const OptionalTensor& ori_x, const OptionalTensor&,
                                          const OptionalTensor&, const OptionalTensor&, c10::string_view,
                                          int64_t tp_size, int64_t, int64_t, int64_t, int64_t shared_ranks, int64_t,
                                          int64_t, int64_t, int64_t, c10::string_view, double epsilon,
                                          int64_t zero_experts, int64_t copy_experts, int64_t const_experts) {
  const Ranks ranks = {"npu_moe_distribute_combine_add_rms_norm", ep_size, ep_rank, tp_size, shared_ranks, experts};
  const Special special = {zero_experts, copy_experts, const_experts};
  check_ranks(ranks, expert_ids);
  check_special(ranks.op, special, ori_x);
  check_last_dims(ranks.op, "gamma", gamma, "residual_x", residual_x);
  const Tensor sum = combined(rows_by_notes(expert_ids, notes, ep_send_counts), expand_x, expert_scales, shared);
  const Tensor tokens = with_copies(sum, ranks, special, expert_ids, expert_scales, ori_x);
  const Tensor x = (tokens.reshape_symint(residual_x.sym_sizes()) + wide(residual_x)).to(residual_x.scalar_type());
  const Tensor rstd = wide(x).square().mean(-1, /*keepdim=*/true).add(epsilon).rsqrt();
  return {(wide(x) * rstd * wide(gamma)).to(x.scalar_type()), rstd, x};
}

}  // namespace

void define_moe_distribute(Definitions& npu) {
  npu.composed("npu_moe_distribute_combine", &moe_distribute_combine,
               "The inverse of npu_moe_distribute_dispatch of one rank: for each token the sum of its rows times "
               "expert_scales, plus "
               "shared_expert_x, in float32");
  npu.composed(
      "npu_moe_distribute_combine_add_rms_norm", &moe_distribute_combine_add_rms_norm,
      "x = residual_x + npu_moe_distribute_combine_v2; y = x / sqrt(mean(x^2) + norm_eps) * gamma. Results: y, rstd in "
      "float32, x");
  npu.composed(
      "npu_moe_distribute_combine_v2", &moe_distribute_combine_v2,
      "The inverse of npu_moe_distribute_dispatch_v2 of one rank: for each token the sum of its rows times "
      "expert_scales, plus "
      "shared_expert_x, in float32. Experts after moe_expert_num give zeros (zero_expert_num of them), then ori_x "
      "(copy_expert_num)");
  npu.composed(
      "npu_moe_distribute_dispatch", &moe_distribute_dispatch,
      "Rows of x in the order of the experts of active pairs, equal ones as they stand, zeros after them; for one "
      "rank. "
      "Results: rows, with quant_mode 2 by their greatest magnitude / 127 (after scales of experts), these scales, for "
      "each "
      "pair its place among those of its expert, pairs of each expert (plain, or with type 0 summed up), summed up in "
      "int32, all of them, and expert_scales of rows");
  npu.composed("npu_moe_distribute_dispatch_v2", &moe_distribute_dispatch_v2,
               "npu_moe_distribute_dispatch, whose third result has 128 numbers for each row: rank, token, number of "
               "the token's "
               "expert, zeros");
}

}  // namespace npugraph::npu_ops
