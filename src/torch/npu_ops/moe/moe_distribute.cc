// SPDX-License-Identifier: Apache-2.0
// Tokens to the experts of all ranks and back. With one rank this is a sort and its inverse, and no group is needed.
#include <tuple>

#include "torch/npu_ops/families.h"
#include "torch/npu_ops/framework/call_arguments.h"
#include "torch/npu_ops/matmul/products.h"
#include "torch/npu_ops/moe/moe_combine.h"
#include "torch/npu_ops/moe/moe_dispatch.h"

namespace npugraph::npu_ops {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

SpecialExperts special_experts_of(const CallArguments& call) {
  return {.zero = call.integer({"zero_expert_num"}),
          .copy = call.integer({"copy_expert_num"}),
          .constant = call.integer({"const_expert_num"}),
          .ori_x = call.given_tensor({"ori_x"}),
          .alpha_1 = call.given_tensor({"const_expert_alpha_1"}),
          .alpha_2 = call.given_tensor({"const_expert_alpha_2"}),
          .v = call.given_tensor({"const_expert_v"})};
}

void check_not_elastic(const CallArguments& call) {
  check_absent(call.op(), "elastic_info", call.given_tensor({"elastic_info"}).has_value());
}

template <bool notes_of_rows>
void moe_distribute_dispatch(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  check_not_elastic(call);
  const Dispatch how = {.experts = expert_ranks_of(call),
                        .quant_mode = call.integer({"quant_mode"}),
                        .global_bs = call.integer({"global_bs"}),
                        .nums_type = call.integer({"expert_token_nums_type"}),
                        .notes_of_rows = notes_of_rows,
                        .y_dtype = call.optional_integer({"y_dtype"})};
  const Dispatched out = dispatched(how, call.tensor({"x"}), call.tensor({"expert_ids"}), call.given_tensor({"scales"}),
                                    call.given_tensor({"x_active_mask"}), call.given_tensor({"expert_scales"}));
  std::apply([&](const auto&... tensors) { call.give(tensors...); }, out);
}

void moe_distribute_combine(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const ExpertRanks ranks = expert_ranks_of(call);
  ranks.check();
  const Tensor &expand_x = call.tensor({"expand_x"}), &expert_ids = call.tensor({"expert_ids"});
  const Home home = home_by_places(ranks, expand_x, expert_ids, call.tensor({"expand_idx"}),
                                   call.tensor({"ep_send_counts"}), call.given_tensor({"x_active_mask"}));
  const Tensor tokens =
      combined(ranks, home, expert_ids, call.tensor({"expert_scales"}), call.given_tensor({"shared_expert_x"}));
  call.give(tokens.to(expand_x.scalar_type()));
}

// Shared by the second version of combine and its fusions.
Tensor combined_by_notes(const CallArguments& call) {
  const ExpertRanks ranks = expert_ranks_of(call);
  const SpecialExperts special = special_experts_of(call);
  ranks.check();
  special.check(ranks.op);
  const Tensor& expert_ids = call.tensor({"expert_ids"});
  check_dims(ranks.op, "expert_ids", expert_ids, 2, 2);
  check_not_elastic(call);
  const Home home =
      home_by_notes(ranks, call.tensor({"expand_x"}), expert_ids,
                    call.tensor({"assist_info_for_combine", "expand_idx"}), call.tensor({"ep_send_counts"}));
  return combined(ranks, home, expert_ids, call.tensor({"expert_scales"}), call.given_tensor({"shared_expert_x"}),
                  special);
}

void moe_distribute_combine_v2(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Tensor tokens = combined_by_notes(call);
  call.give(tokens.to(call.tensor({"expand_x"}).scalar_type()));
}

void moe_distribute_combine_add_rms_norm(const OperatorHandle& op, Stack* stack) {
  CallArguments call(op, stack);
  const Tensor &residual = call.tensor({"residual_x"}), &gamma = call.tensor({"gamma"});
  check_last_dims(call.op(), "gamma", gamma, "residual_x", residual);
  const Tensor tokens = combined_by_notes(call).unsqueeze(1);
  const Tensor x = (tokens + wide(residual).reshape_symint(tokens.sym_sizes())).to(residual.scalar_type());
  const double epsilon = call.number({"norm_eps"});
  const Tensor rstd = wide(x).square().mean(-1, /*keepdim=*/true).add(epsilon).rsqrt();
  call.give((wide(x) * rstd * wide(gamma)).to(x.scalar_type()), rstd, x);
}

}  // namespace

void define_moe_distribute(OperatorLibrary& library) {
  library.add({
      .schema = "npu::npu_moe_distribute_combine(Tensor expand_x, Tensor expert_ids, Tensor expand_idx, Tensor "
                "ep_send_counts, Tensor expert_scales, str group_ep, int ep_world_size, int ep_rank_id, int "
                "moe_expert_num, *, Tensor? tp_send_counts=None, Tensor? x_active_mask=None, Tensor? "
                "activation_scale=None, Tensor? weight_scale=None, Tensor? group_list=None, Tensor? "
                "expand_scales=None, Tensor? shared_expert_x=None, str group_tp=\"\", int tp_world_size=0, int "
                "tp_rank_id=0, int expert_shard_type=0, int shared_expert_num=1, int shared_expert_rank_num=0, int "
                "global_bs=0, int out_dtype=0, int comm_quant_mode=0, int group_list_type=0) -> Tensor",
      .kernel = parts(boxed<&moe_distribute_combine>()),
      .definition =
          "The way back of npu_moe_distribute_dispatch: for each token the sum of its rows times expert_scales, "
          "of the rows of shared experts, and of shared_expert_x, in float32",
  });
  library.add({
      .schema = "npu::npu_moe_distribute_combine_add_rms_norm(Tensor expand_x, Tensor expert_ids, Tensor expand_idx, "
                "Tensor ep_send_counts, Tensor expert_scales, Tensor residual_x, Tensor gamma, str group_ep, int "
                "ep_world_size, int ep_rank_id, int moe_expert_num, *, Tensor? tp_send_counts=None, Tensor? "
                "x_active_mask=None, Tensor? activation_scale=None, Tensor? weight_scale=None, Tensor? "
                "group_list=None, Tensor? expand_scales=None, Tensor? shared_expert_x=None, Tensor? elastic_info=None, "
                "Tensor? ori_x=None, Tensor? const_expert_alpha_1=None, Tensor? const_expert_alpha_2=None, Tensor? "
                "const_expert_v=None, str group_tp=\"\", int tp_world_size=0, int tp_rank_id=0, int "
                "expert_shard_type=0, int shared_expert_num=1, int shared_expert_rank_num=0, int global_bs=0, int "
                "out_dtype=0, int comm_quant_mode=0, int group_list_type=0, str comm_alg=\"\", float norm_eps=1e-06, "
                "int zero_expert_num=0, int copy_expert_num=0, int const_expert_num=0) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&moe_distribute_combine_add_rms_norm>()),
      .definition = "x = residual_x + npu_moe_distribute_combine_v2; y = x / sqrt(mean(x^2) + norm_eps) * gamma. "
                    "Results: y, rstd in "
                    "float32, x, each [tokens, 1, ...]",
  });
  library.add({
      .schema =
          "npu::npu_moe_distribute_combine_v2(Tensor expand_x, Tensor expert_ids, Tensor assist_info_for_combine, "
          "Tensor ep_send_counts, Tensor expert_scales, str group_ep, int ep_world_size, int ep_rank_id, int "
          "moe_expert_num, *, Tensor? tp_send_counts=None, Tensor? x_active_mask=None, Tensor? expand_scales=None, "
          "Tensor? shared_expert_x=None, Tensor? elastic_info=None, Tensor? ori_x=None, Tensor? "
          "const_expert_alpha_1=None, Tensor? const_expert_alpha_2=None, Tensor? const_expert_v=None, Tensor? "
          "performance_info=None, str group_tp=\"\", int tp_world_size=0, int tp_rank_id=0, int expert_shard_type=0, "
          "int shared_expert_num=1, int shared_expert_rank_num=0, int global_bs=0, int comm_quant_mode=0, str "
          "comm_alg=\"\", int zero_expert_num=0, int copy_expert_num=0, int const_expert_num=0) -> Tensor",
      .kernel = parts(boxed<&moe_distribute_combine_v2>()),
      .definition =
          "The way back of npu_moe_distribute_dispatch_v2: for each token the sum of its rows times expert_scales, of "
          "the "
          "rows of shared experts, and of shared_expert_x, in float32. Experts after moe_expert_num give zeros "
          "(zero_expert_num of them), then ori_x (copy_expert_num), then const_expert_alpha_1 * ori_x + "
          "const_expert_alpha_2 * const_expert_v (const_expert_num; Jin et al., 2024, arXiv:2410.07348)",
  });
  library.add({
      .schema =
          "npu::npu_moe_distribute_dispatch(Tensor x, Tensor expert_ids, str group_ep, int ep_world_size, int "
          "ep_rank_id, int moe_expert_num, *, Tensor? scales=None, Tensor? x_active_mask=None, Tensor? "
          "expert_scales=None, str group_tp=\"\", int tp_world_size=0, int tp_rank_id=0, int expert_shard_type=0, int "
          "shared_expert_num=1, int shared_expert_rank_num=0, int quant_mode=0, int global_bs=0, int "
          "expert_token_nums_type=1) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&moe_distribute_dispatch<false>>()),
      .definition =
          "Rows of x go to the ranks that have their experts: the first shared_expert_rank_num ranks have shared "
          "experts, "
          "which take all tokens, and the others equally many experts each. On each rank rows are in the order of "
          "experts, "
          "then ranks, then tokens; zeros after them. Results: rows; their scales, zeros without; for each pair its "
          "place "
          "among those of "
          "its expert; rows of each expert (plain, or with type 0 summed up), of each expert and rank summed up in "
          "int32, "
          "all of them; expert_scales of rows. With expert_scales, the counts of experts and ranks are followed by "
          "zeros, "
          "2 "
          "for each pair of all ranks and each 8 ranks. Rows are rounded to int8 with quant_mode 1 after scales (of "
          "experts), with "
          "2 by their greatest magnitude / 127. x_active_mask is of tokens or of pairs. One TP rank",
  });
  library.add({
      .schema =
          "npu::npu_moe_distribute_dispatch_v2(Tensor x, Tensor expert_ids, str group_ep, int ep_world_size, int "
          "ep_rank_id, int moe_expert_num, *, Tensor? scales=None, Tensor? x_active_mask=None, Tensor? "
          "expert_scales=None, Tensor? elastic_info=None, Tensor? performance_info=None, str group_tp=\"\", int "
          "tp_world_size=0, int tp_rank_id=0, int expert_shard_type=0, int shared_expert_num=1, int "
          "shared_expert_rank_num=0, int quant_mode=0, int global_bs=0, int expert_token_nums_type=1, str "
          "comm_alg=\"\", int zero_expert_num=0, int copy_expert_num=0, int const_expert_num=0, int? y_dtype=None, "
          "int? x_dtype=None, int? scales_dtype=None) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&moe_distribute_dispatch<true>>()),
      .definition =
          "npu_moe_distribute_dispatch, whose third result has 128 numbers for each row: rank, token, number of "
          "the token's expert (those of shared experts after the others), zeros. Rows are rounded to y_dtype; "
          "quant_mode 3 has a scale for each 128 values, 4 an OCP microscaling one for each 32",
  });
}

}  // namespace npugraph::npu_ops
