// SPDX-License-Identifier: Apache-2.0
// Tokens to the experts of all ranks and back. With one rank this is a sort and its inverse, and no group is needed.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/framework/call_arguments.h"
#include "device/npu_ops/matmul/products.h"
#include "device/npu_ops/moe/moe_ranks.h"

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
      .definition = "Sends the results of experts back to the ranks of their tokens and adds them up: the reverse of "
                    "npu_moe_distribute_dispatch. For each token the result is the sum of its rows times "
                    "expert_scales, plus the rows of shared experts and shared_expert_x, in float32. expand_x, [A, H], "
                    "has the rows in the order of the first result of npu_moe_distribute_dispatch; expand_idx and "
                    "ep_send_counts are its results expand_idx and ep_recv_counts. expert_ids and expert_scales are "
                    "[N, K]; expert_ids and x_active_mask must be those of the dispatch. Ids from moe_expert_num on "
                    "were not sent and add 0. A row with the weight 0 adds 0 even if it is not finite. The result is "
                    "[N, H] in the type of expand_x; a token that was not sent gets 0, plus its row of "
                    "shared_expert_x, [N, H] (also with further dimensions of size 1). activation_scale, weight_scale, "
                    "group_list, expand_scales, tp_send_counts, group_tp, tp_rank_id, global_bs, group_list_type, "
                    "out_dtype and comm_quant_mode are ignored.",
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
      .definition = "npu_moe_distribute_combine_v2, then the addition of a residual and RMS normalisation: x = "
                    "residual_x + combined, rounded to the type of residual_x, and y = x * rstd * gamma with rstd = 1 "
                    "/ sqrt(mean(x^2) + norm_eps). expand_idx is assist_info_for_combine of "
                    "npu_moe_distribute_dispatch_v2; residual_x is [N, 1, H] or [N, H], gamma is [H]. Results: y [N, "
                    "1, H], rstd [N, 1, 1] in float32, and x [N, 1, H]; y and x are in the type of residual_x. "
                    "elastic_info raises NotImplementedError. tp_send_counts, x_active_mask, expand_scales, "
                    "activation_scale, weight_scale, group_list, group_tp, tp_rank_id, global_bs, comm_quant_mode, "
                    "out_dtype, group_list_type and comm_alg are ignored.",
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
      .definition = "npu_moe_distribute_combine for the results of npu_moe_distribute_dispatch_v2, with "
                    "assist_info_for_combine instead of expand_idx. It also handles experts without weights, numbered "
                    "from moe_expert_num on (MoE++: Jin et al., 2024, arXiv:2410.07348). These give 0 (zero_expert_num "
                    "experts), then ori_x [N, H] (copy_expert_num experts), then const_expert_alpha_1[c] * ori_x + "
                    "const_expert_alpha_2[c] * const_expert_v[c] (const_expert_num experts c), also times "
                    "expert_scales. const_expert_v is [const_expert_num, H]. elastic_info raises NotImplementedError. "
                    "tp_send_counts, x_active_mask, expand_scales, performance_info, group_tp, tp_rank_id, global_bs, "
                    "comm_quant_mode and comm_alg are ignored.",
  });
  library.add({
      .schema =
          "npu::npu_moe_distribute_dispatch(Tensor x, Tensor expert_ids, str group_ep, int ep_world_size, int "
          "ep_rank_id, int moe_expert_num, *, Tensor? scales=None, Tensor? x_active_mask=None, Tensor? "
          "expert_scales=None, str group_tp=\"\", int tp_world_size=0, int tp_rank_id=0, int expert_shard_type=0, int "
          "shared_expert_num=1, int shared_expert_rank_num=0, int quant_mode=0, int global_bs=0, int "
          "expert_token_nums_type=1) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      .kernel = parts(boxed<&moe_distribute_dispatch<false>>()),
      .definition = "Sends each token to the ranks that hold its experts: the all-to-all before the experts in expert "
                    "parallelism. The first shared_expert_rank_num ranks hold shared_expert_num shared experts, which "
                    "take all tokens; the other ranks hold moe_expert_num experts in equal parts. x is [N, H], "
                    "expert_ids is [N, K]; x_active_mask, [N] or [N, K], selects tokens or pairs of token and expert. "
                    "expert_ids from moe_expert_num on are not sent, and ids must not be negative. Each rank receives "
                    "rows ordered by expert, then source rank, then token. Zeros fill up to A rows, the most that can "
                    "come from global_bs tokens of all ranks (N * ep_world_size if it is 0). Results: expand_x [A, H]; "
                    "dynamic_scales [A] in float32, zeros without dynamic quantisation; expand_idx [N * K] in int32, "
                    "the position of each pair among those of its expert; expert_token_nums in int64, the rows of each "
                    "local expert (cumulative with expert_token_nums_type 0); ep_recv_counts in int32, the cumulative "
                    "rows by local expert, then source rank, followed with expert_scales by 2 zeros for each pair of "
                    "all ranks and each 8 ranks; tp_recv_counts [1] in int32, the number of rows; and expand_scales "
                    "[A] in float32, the expert_scales of the rows, empty without. quant_mode 1 rounds x * scales to "
                    "int8; quant_mode 2 multiplies by scales if given and quantises each row dynamically to int8 with "
                    "the scale max(abs(row)) / 127. scales is one number, [H], or [experts, H] with shared experts "
                    "first. tp_world_size must be 0 or 1; if shared_expert_rank_num is not 0, expert_shard_type must "
                    "be 0 and shared_expert_num must divide it. group_tp and tp_rank_id are ignored.",
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
      .definition = "npu_moe_distribute_dispatch with another third result, assist_info_for_combine [A * 128] in "
                    "int32: for each row its source rank, its token, the index of the expert among those of the token "
                    "(0 to K - 1, then the shared experts), and zeros. expert_ids from moe_expert_num on, such as "
                    "those of zero, copy and constant experts, are not sent. Rows are quantised to y_dtype, by default "
                    "int8. quant_mode 3 has a float32 scale for each 128 values of a row, and quant_mode 4 a power of "
                    "two for each 32 (OCP Microscaling Formats, v1.0), in an even number of float8_e8m0fnu bytes for "
                    "each row; both need y_dtype. elastic_info raises NotImplementedError. performance_info, comm_alg, "
                    "x_dtype, scales_dtype and the numbers of zero, copy and constant experts are ignored.",
  });
}

}  // namespace npugraph::npu_ops
