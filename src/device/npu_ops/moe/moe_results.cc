// SPDX-License-Identifier: Apache-2.0
// Results of experts in the order of tokens again, and counts of tokens and experts.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/moe/moe.h"

namespace npugraph::npu_ops {
namespace {

using c10::SymInt;

// Places of pairs as a table [tokens, k], from a vector that has the first expert of all tokens first
// (`experts_first`), or all experts of the first token first.
Tensor table_of_pairs(const Tensor& vector, const SymInt& k, bool experts_first) {
  const SymInt tokens = vector.sym_size(0) / k;
  return experts_first ? vector.view_symint({k, tokens}).t() : vector.view_symint({tokens, k});
}

Tensor moe_finalize_routing(const Tensor& expanded, const OptionalTensor& skip1, const OptionalTensor& skip2,
                            const OptionalTensor& bias, const OptionalTensor& scales, const Tensor& row_idx,
                            const OptionalTensor& experts, std::optional<int64_t> drop_pad_mode,
                            std::optional<int64_t> k) {
  constexpr const char* kOp = "npu_moe_finalize_routing";
  const int64_t mode = drop_pad_mode.value_or(0);
  check_floating(kOp, "expanded_permuted_rows", expanded);
  check_dims(kOp, "expanded_src_to_dst_row", row_idx, 1, 1);
  check_choice(kOp, "drop_pad_mode", mode, {0, 1, 2, 3});
  TORCH_CHECK(!bias || experts, kOp, ": bias asks for export_for_source_row");
  const SymInt count = scales ? scales->sym_size(1) : SymInt(k.value_or(1));
  const Tensor places = table_of_pairs(row_idx.to(at::kLong), count, mode < 2);
  const Tensor rows = expanded.dim() == 3 ? expanded.flatten(0, 1) : expanded;
  Tensor parts = rows_or_zeros(wide(rows), places, places >= 0);
  if (bias) parts = parts + wide(*bias).index_select(0, experts->reshape(-1)).unflatten_symint(0, places.sym_sizes());
  if (scales) parts = weighted(parts, *scales);
  Tensor out = parts.sum(1);
  if (skip1) out = out + wide(*skip1);
  if (skip2) out = out + wide(*skip2);
  return out.to(expanded.scalar_type());
}

Four moe_re_routing(const Tensor& tokens, const Tensor& counts, const OptionalTensor& scales, int64_t num_type,
                    int64_t idx_type, std::optional<int64_t>) {
  constexpr const char* kOp = "npu_moe_re_routing";
  check_dims(kOp, "tokens", tokens, 2, 2);
  check_dims(kOp, "expert_token_num_per_rank", counts, 2, 2);
  check_type(kOp, "expert_token_num_per_rank", counts, {at::kInt, at::kLong});
  check_choice(kOp, "expert_token_num_type", num_type, {0, 1});
  check_choice(kOp, "idx_type", idx_type, {0, 1});
  const SymInt ranks = counts.sym_size(0), experts = counts.sym_size(1);
  const Tensor ends = counts.reshape(-1).cumsum(0);
  const Tensor chunk =
      at::searchsorted(ends, count_up(tokens, tokens.sym_size(0)), /*out_int32=*/false, /*right=*/true);
  // Chunks are [rank][expert] and are to be [expert][rank]; rows after the last chunk stay last.
  const Tensor rank = chunk.floor_divide(at::Scalar(experts)), expert = chunk.remainder(at::Scalar(experts));
  const Tensor after = chunk >= at::Scalar(ranks * experts);
  const Tensor order = rising_places((expert * ranks + rank).masked_fill(after, at::Scalar(ranks * experts)));
  const Tensor sums = counts.sum(0);
  return {tokens.index_select(0, order),
          scales ? scales->index_select(0, order) : tokens.new_ones_symint({tokens.sym_size(0)}, at::kFloat),
          (idx_type == 0 ? order : inverse_of(order)).to(at::kInt),
          (num_type == 0 ? sums.cumsum(0) : sums).to(counts.scalar_type())};
}

Tensor moe_compute_expert_tokens(const Tensor& sorted_experts, int64_t num_expert) {
  constexpr const char* kOp = "npu_moe_compute_expert_tokens";
  check_dims(kOp, "sorted_expert_for_source_row", sorted_experts, 1, 1);
  check_type(kOp, "sorted_expert_for_source_row", sorted_experts, {at::kInt, at::kLong});
  const Tensor experts = count_up(sorted_experts, num_expert).to(sorted_experts.scalar_type());
  return at::searchsorted(sorted_experts, experts, /*out_int32=*/false, /*right=*/true)
      .to(sorted_experts.scalar_type());
}

std::tuple<Tensor, Tensor> moe_update_expert(const Tensor& expert_ids, const Tensor& table,
                                             const OptionalTensor& scales, const OptionalTensor& threshold,
                                             const OptionalTensor& active_mask, int64_t rank, int64_t world_size,
                                             int64_t balance_mode) {
  constexpr const char* kOp = "npu_moe_update_expert";
  check_dims(kOp, "expert_ids", expert_ids, 2, 2);
  check_dims(kOp, "eplb_table", table, 2, 2);
  check_choice(kOp, "balance_mode", balance_mode, {0, 1});
  TORCH_CHECK(balance_mode == 1 || (rank >= 0 && world_size > rank), kOp, ": local_rank_id ", rank, " of world_size ",
              world_size, ", but balance_mode 0 asks for 0 <= local_rank_id < world_size");
  TORCH_CHECK(scales.has_value() == threshold.has_value(), kOp,
              ": expert_scales and pruning_threshold are given together or not at all");
  const Tensor rows = table.to(at::kLong).index_select(0, expert_ids.reshape(-1));
  const Tensor copies = rows.select(1, 0);
  const Tensor token = count_up(expert_ids, expert_ids.sym_size(0)).unsqueeze(1).expand_as(expert_ids).reshape(-1);
  const Tensor ranks_of_copy = (copies + (world_size - 1)).floor_divide(copies.clamp_min(1));
  const Tensor copy =
      balance_mode == 1 ? token.remainder(copies) : at::full_like(copies, rank).floor_divide(ranks_of_copy);
  const Tensor ids = rows.gather(1, (copy + 1).unsqueeze(1)).reshape_symint(expert_ids.sym_sizes());
  Tensor active = at::ones_like(expert_ids, expert_ids.options().dtype(at::kBool));
  if (scales) active = wide(*scales) >= wide(*threshold) * wide(*scales).sum(-1, true);
  if (active_mask) active = active.logical_and(active_mask->unsqueeze(-1));
  return {ids.to(expert_ids.scalar_type()), active};
}

}  // namespace

void define_moe_results(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_moe_finalize_routing(Tensor expanded_permuted_rows, Tensor? skip1, Tensor? skip2, Tensor? "
                "bias, Tensor? scales, Tensor expanded_src_to_dst_row, Tensor? export_for_source_row, int? "
                "drop_pad_mode=0, int? k=1) -> Tensor",
      .kernel = parts(&moe_finalize_routing),
      .definition = "Brings the results of experts back into the order of tokens and adds them up, in float32: out[i] "
                    "= skip1[i] + skip2[i] + sum over j of scales[i, j] * (expanded_permuted_rows[row] + "
                    "bias[export_for_source_row[i, j]]). row is expanded_src_to_dst_row[j * N + i] with drop_pad_mode "
                    "0 or 1, and expanded_src_to_dst_row[i * K + j] with 2 or 3; where it is -1, zeros stand for the "
                    "row. expanded_permuted_rows is [rows, H] or [E, capacity, H], skip1 and skip2 are [N, H], bias is "
                    "[E, H], and scales and export_for_source_row are [N, K]. Without scales K is k, and the weights "
                    "are 1. Terms of weight 0 are 0 even if they are not finite. The result is [N, H] in the type of "
                    "expanded_permuted_rows.",
  });
  library.add({
      .schema =
          "npu::npu_moe_re_routing(Tensor tokens, Tensor expert_token_num_per_rank, *, Tensor? per_token_scales=None, "
          "int expert_token_num_type=1, int idx_type=0, int? tokens_dtype=None) -> (Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(&moe_re_routing),
      .definition = "Reorders the rows that an all-to-all brought from other ranks, from chunks [rank][expert] to "
                    "chunks [expert][rank]. expert_token_num_per_rank, int32 or int64 [ranks, E], holds the length of "
                    "each chunk; rows after the last chunk stay last. tokens is [N, H], per_token_scales is [N]. "
                    "Results: the rows; their scales (float32 ones if none are given); the old position of each row "
                    "(idx_type 0) or the new position of each old row (idx_type 1), [N] in int32; and the number of "
                    "rows of each expert, [E] in the type of expert_token_num_per_rank, cumulative with "
                    "expert_token_num_type 0 and plain with 1. tokens_dtype is ignored.",
  });
  library.add({
      .schema = "npu::npu_moe_compute_expert_tokens(Tensor sorted_expert_for_source_row, int num_expert) -> Tensor",
      .kernel = parts(&moe_compute_expert_tokens),
      .definition = "Cumulative number of tokens of each expert: out[e] is how many elements of "
                    "sorted_expert_for_source_row are at most e. sorted_expert_for_source_row is a vector of experts "
                    "in ascending order, in int32 or int64. The result is [num_expert] in its type.",
  });
  library.add({
      .schema = "npu::npu_moe_update_expert(Tensor expert_ids, Tensor eplb_table, *, Tensor? expert_scales=None, "
                "Tensor? pruning_threshold=None, Tensor? active_mask=None, int local_rank_id=-1, int world_size=-1, "
                "int balance_mode=0) -> (Tensor, Tensor)",
      .kernel = parts(&moe_update_expert),
      .definition = "Replaces the experts of tokens by the ids of their copies, for load balancing among ranks. Row e "
                    "of eplb_table [E, 1 + copies] holds the number of copies of expert e, then their ids. With "
                    "balance_mode 0 all tokens take copy local_rank_id / ceil(world_size / number of copies), rounded "
                    "down, where 0 <= local_rank_id < world_size; with balance_mode 1 token i takes copy i % number of "
                    "copies, and local_rank_id and world_size are ignored. Each expert that is used needs a copy. "
                    "Results: the ids, in the shape [N, K] and type of expert_ids; and a bool mask [N, K] of the pairs "
                    "that stay, which are those of tokens in active_mask [N] and, if expert_scales [N, K] and "
                    "pruning_threshold are given (both or none), with expert_scales >= pruning_threshold * (sum of the "
                    "expert_scales of the token). pruning_threshold is broadcast to [N, K].",
  });
}

}  // namespace npugraph::npu_ops
