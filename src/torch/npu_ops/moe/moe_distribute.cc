// SPDX-License-Identifier: Apache-2.0
// Tokens to the experts of all ranks and back. With one rank these are a sort and its inverse, and no group is asked for.
#include <string>
#include <tuple>

#include "torch/npu_ops/matmul/products.h"
#include "torch/npu_ops/moe/families.h"
#include "torch/npu_ops/moe/moe_combine.h"
#include "torch/npu_ops/moe/moe_dispatch.h"

namespace npugraph::npu_ops {
namespace {

using OptionalInt = std::optional<int64_t>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Dispatched moe_distribute_dispatch(const Tensor& x, const Tensor& expert_ids, c10::string_view group, int64_t ep_size,
                                   int64_t ep_rank, int64_t experts, const OptionalTensor& scales,
                                   const OptionalTensor& mask, const OptionalTensor& expert_scales, c10::string_view,
                                   int64_t tp_size, int64_t, int64_t shard_type, int64_t shared_experts,
                                   int64_t shared_ranks, int64_t quant_mode, int64_t global_bs, int64_t nums_type) {
  const ExpertRanks ranks = {"npu_moe_distribute_dispatch",
                             std::string(group),
                             ep_size,
                             ep_rank,
                             tp_size,
                             shard_type,
                             shared_experts,
                             shared_ranks,
                             experts};
  return dispatched({ranks, quant_mode, global_bs, nums_type, false}, x, expert_ids, scales, mask, expert_scales);
}

Dispatched moe_distribute_dispatch_v2(const Tensor& x, const Tensor& expert_ids, c10::string_view group,
                                      int64_t ep_size, int64_t ep_rank, int64_t experts, const OptionalTensor& scales,
                                      const OptionalTensor& mask, const OptionalTensor& expert_scales,
                                      const OptionalTensor& elastic_info, const OptionalTensor&, c10::string_view,
                                      int64_t tp_size, int64_t, int64_t shard_type, int64_t shared_experts,
                                      int64_t shared_ranks, int64_t quant_mode, int64_t global_bs, int64_t nums_type,
                                      c10::string_view, int64_t, int64_t, int64_t, OptionalInt y_dtype, OptionalInt,
                                      OptionalInt) {
  const ExpertRanks ranks = {"npu_moe_distribute_dispatch_v2",
                             std::string(group),
                             ep_size,
                             ep_rank,
                             tp_size,
                             shard_type,
                             shared_experts,
                             shared_ranks,
                             experts};
  check_absent(ranks.op, "elastic_info", given(elastic_info));
  return dispatched({ranks, quant_mode, global_bs, nums_type, true, y_dtype}, x, expert_ids, scales, mask,
                    expert_scales);
}

Tensor moe_distribute_combine(const Tensor& expand_x, const Tensor& expert_ids, const Tensor& expand_idx,
                              const Tensor& ep_send_counts, const Tensor& expert_scales, c10::string_view group,
                              int64_t ep_size, int64_t ep_rank, int64_t experts, const OptionalTensor&,
                              const OptionalTensor& mask, const OptionalTensor&, const OptionalTensor&,
                              const OptionalTensor&, const OptionalTensor&, const OptionalTensor& shared,
                              c10::string_view, int64_t tp_size, int64_t, int64_t shard_type, int64_t shared_experts,
                              int64_t shared_ranks, int64_t, int64_t, int64_t, int64_t) {
  const ExpertRanks ranks = {"npu_moe_distribute_combine",
                             std::string(group),
                             ep_size,
                             ep_rank,
                             tp_size,
                             shard_type,
                             shared_experts,
                             shared_ranks,
                             experts};
  ranks.check();
  const Home home = home_by_places(ranks, expand_x, expert_ids, expand_idx, ep_send_counts, mask);
  return combined(ranks, home, expert_ids, expert_scales, shared).to(expand_x.scalar_type());
}

// What the second version of combine and its fusions begin with.
Tensor combined_by_notes(const ExpertRanks& ranks, const Tensor& expand_x, const Tensor& expert_ids,
                         const Tensor& notes, const Tensor& ep_send_counts, const Tensor& expert_scales,
                         const OptionalTensor& shared, const OptionalTensor& elastic_info,
                         const SpecialExperts& special) {
  ranks.check();
  special.check(ranks.op);
  check_dims(ranks.op, "expert_ids", expert_ids, 2, 2);
  check_absent(ranks.op, "elastic_info", given(elastic_info));
  const Home home = home_by_notes(ranks, expand_x, expert_ids, notes, ep_send_counts);
  return combined(ranks, home, expert_ids, expert_scales, shared, special);
}

Tensor moe_distribute_combine_v2(const Tensor& expand_x, const Tensor& expert_ids, const Tensor& notes,
                                 const Tensor& ep_send_counts, const Tensor& expert_scales, c10::string_view group,
                                 int64_t ep_size, int64_t ep_rank, int64_t experts, const OptionalTensor&,
                                 const OptionalTensor&, const OptionalTensor&, const OptionalTensor& shared,
                                 const OptionalTensor& elastic_info, const OptionalTensor& ori_x,
                                 const OptionalTensor& alpha_1, const OptionalTensor& alpha_2, const OptionalTensor& v,
                                 const OptionalTensor&, c10::string_view, int64_t tp_size, int64_t, int64_t shard_type,
                                 int64_t shared_experts, int64_t shared_ranks, int64_t, int64_t, c10::string_view,
                                 int64_t zero_experts, int64_t copy_experts, int64_t const_experts) {
  const ExpertRanks ranks = {"npu_moe_distribute_combine_v2",
                             std::string(group),
                             ep_size,
                             ep_rank,
                             tp_size,
                             shard_type,
                             shared_experts,
                             shared_ranks,
                             experts};
  const SpecialExperts special = {zero_experts, copy_experts, const_experts, ori_x, alpha_1, alpha_2, v};
  return combined_by_notes(ranks, expand_x, expert_ids, notes, ep_send_counts, expert_scales, shared, elastic_info,
                           special)
      .to(expand_x.scalar_type());
}

Three moe_distribute_combine_add_rms_norm(
    const Tensor& expand_x, const Tensor& expert_ids, const Tensor& notes, const Tensor& ep_send_counts,
    const Tensor& expert_scales, const Tensor& residual_x, const Tensor& gamma, c10::string_view group, int64_t ep_size,
    int64_t ep_rank, int64_t experts, const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
    const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, const OptionalTensor& shared,
    const OptionalTensor& elastic_info, const OptionalTensor& ori_x, const OptionalTensor& alpha_1,
    const OptionalTensor& alpha_2, const OptionalTensor& v, c10::string_view, int64_t tp_size, int64_t,
    int64_t shard_type, int64_t shared_experts, int64_t shared_ranks, int64_t, int64_t, int64_t, int64_t,
    c10::string_view, double epsilon, int64_t zero_experts, int64_t copy_experts, int64_t const_experts) {
  const ExpertRanks ranks = {"npu_moe_distribute_combine_add_rms_norm",
                             std::string(group),
                             ep_size,
                             ep_rank,
                             tp_size,
                             shard_type,
                             shared_experts,
                             shared_ranks,
                             experts};
  const SpecialExperts special = {zero_experts, copy_experts, const_experts, ori_x, alpha_1, alpha_2, v};
  check_last_dims(ranks.op, "gamma", gamma, "residual_x", residual_x);
  const Tensor tokens = combined_by_notes(ranks, expand_x, expert_ids, notes, ep_send_counts, expert_scales, shared,
                                          elastic_info, special);
  const Tensor x = (tokens.reshape_symint(residual_x.sym_sizes()) + wide(residual_x)).to(residual_x.scalar_type());
  const Tensor rstd = wide(x).square().mean(-1, /*keepdim=*/true).add(epsilon).rsqrt();
  return {(wide(x) * rstd * wide(gamma)).to(x.scalar_type()), rstd, x};
}

}  // namespace

void define_moe_distribute(Definitions& npu) {
  register_rank_exchange();
  npu.composed("npu_moe_distribute_combine", &moe_distribute_combine,
               "The way back of npu_moe_distribute_dispatch: for each token the sum of its rows times expert_scales, "
               "of the rows of shared experts, and of shared_expert_x, in float32");
  npu.composed(
      "npu_moe_distribute_combine_add_rms_norm", &moe_distribute_combine_add_rms_norm,
      "x = residual_x + npu_moe_distribute_combine_v2; y = x / sqrt(mean(x^2) + norm_eps) * gamma. Results: y, rstd in "
      "float32, x");
  npu.composed(
      "npu_moe_distribute_combine_v2", &moe_distribute_combine_v2,
      "The way back of npu_moe_distribute_dispatch_v2: for each token the sum of its rows times expert_scales, of the "
      "rows of shared experts, and of shared_expert_x, in float32. Experts after moe_expert_num give zeros "
      "(zero_expert_num of them), then ori_x (copy_expert_num), then const_expert_alpha_1 * ori_x + "
      "const_expert_alpha_2 * const_expert_v (const_expert_num; Jin et al., 2024, arXiv:2410.07348)");
  npu.composed(
      "npu_moe_distribute_dispatch", &moe_distribute_dispatch,
      "Rows of x go to the ranks that have their experts: the first shared_expert_rank_num ranks have shared experts, "
      "which take all tokens, and the others equally many experts each. On each rank rows are in the order of experts, "
      "then ranks, then tokens; zeros after them. Results: rows; their scales; for each pair its place among those of "
      "its expert; rows of each expert (plain, or with type 0 summed up), of each expert and rank summed up in int32, "
      "all of them; expert_scales of rows. Rows are rounded to int8 with quant_mode 1 after scales (of experts), with "
      "2 by their greatest magnitude / 127. x_active_mask is of tokens or of pairs. One TP rank");
  npu.composed("npu_moe_distribute_dispatch_v2", &moe_distribute_dispatch_v2,
               "npu_moe_distribute_dispatch, whose third result has 128 numbers for each row: rank, token, number of "
               "the token's expert (those of shared experts after the others), zeros. Rows are rounded to y_dtype; "
               "quant_mode 3 has a scale for each 128 values, 4 an OCP microscaling one for each 32");
}

}  // namespace npugraph::npu_ops
