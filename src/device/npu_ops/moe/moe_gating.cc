// SPDX-License-Identifier: Apache-2.0
// Gates of mixtures of experts: which experts a token goes to, and with which weights. Scores are in float32.
#include <tuple>

#include "device/npu_ops/families.h"
#include "device/npu_ops/moe/moe.h"

namespace npugraph::npu_ops {
namespace {

void check_k(const char* op, int64_t k, const Tensor& x) {
  TORCH_CHECK(k >= 1 && x.sym_size(-1) >= k, op, ": k is ", k, ", allowed are 1 to ", x.sym_size(-1),
              ", the number of experts");
}

void check_groups(const char* op, const Tensor& x, int64_t groups, int64_t kept) {
  TORCH_CHECK(groups >= 1 && x.sym_size(-1) % groups == 0, op, ": ", x.sym_size(-1), " experts are not ", groups,
              " equal groups");
  TORCH_CHECK(kept >= 1 && kept <= groups, op, ": ", kept, " of ", groups, " groups are to be kept");
}

void check_summed(const char* op, const Tensor& x, int64_t groups, int64_t n) {
  TORCH_CHECK(n >= 1 && x.sym_size(-1) / groups >= n, op, ": n is ", n, ", but a group has ", x.sym_size(-1) / groups,
              " experts");
}

struct TopKGate {
  int64_t k, k_group, group_count, group_select_mode, renorm, norm_type;
  double scale, eps;
};

void check_gate(const Tensor& x, const TopKGate& gate) {
  constexpr const char* kOp = "npu_moe_gating_top_k";
  check_floating(kOp, "x", x);
  check_dims(kOp, "x", x, 2, 2);
  check_k(kOp, gate.k, x);
  check_groups(kOp, x, gate.group_count, gate.k_group);
  check_choice(kOp, "group_select_mode", gate.group_select_mode, {0, 1});
  check_choice(kOp, "renorm", gate.renorm, {0, 1});
  check_choice(kOp, "norm_type", gate.norm_type, {0, 1});
}

Tensor chosen_experts(const Tensor& score, const OptionalTensor& bias, const TopKGate& gate) {
  Tensor choice = bias ? score + wide(*bias) : score;
  if (gate.k_group < gate.group_count)
    choice = only_best_groups(choice, gate.group_count, gate.k_group, gate.group_select_mode == 0 ? 1 : 2);
  return top_places(choice, gate.k);
}

Three moe_gating_top_k(const Tensor& x, int64_t k, const OptionalTensor& bias, const OptionalTensor& input_ids,
                       const OptionalTensor& tid2eid, int64_t k_group, int64_t group_count, int64_t group_select_mode,
                       int64_t renorm, int64_t norm_type, bool, double scale, double eps) {
  const TopKGate gate = {k, k_group, group_count, group_select_mode, renorm, norm_type, scale, eps};
  check_gate(x, gate);
  TORCH_CHECK(input_ids.has_value() == tid2eid.has_value(),
              "npu_moe_gating_top_k: input_ids and tid2eid are given together or not at all");
  const Tensor score = norm_type == 0 ? wide(x).softmax(-1) : wide(x).sigmoid();
  const Tensor experts =
      tid2eid ? tid2eid->index_select(0, input_ids->reshape(-1)).to(at::kLong) : chosen_experts(score, bias, gate);
  Tensor weight = score.gather(-1, experts);
  if (renorm == 1 || norm_type == 1) weight = weight / (weight.sum(-1, true) + eps);
  return {(weight * scale).to(x.scalar_type()), experts.to(at::kInt), score};
}

Tensor moe_gating_top_k_backward(const Tensor& x_norm, const Tensor& grad_y, const Tensor& experts, int64_t renorm,
                                 int64_t norm_type, double scale, double eps) {
  constexpr const char* kOp = "npu_moe_gating_top_k_backward";
  check_choice(kOp, "renorm", renorm, {0, 1});
  check_choice(kOp, "norm_type", norm_type, {0, 1});
  check_same_shape(kOp, "expertIdx", experts, "grad_y", grad_y);
  const Tensor score = wide(x_norm);
  const Tensor places = experts.to(at::kLong);
  Tensor grad = wide(grad_y) * scale;
  if (renorm == 1 || norm_type == 1) {
    const Tensor weight = score.gather(-1, places);
    const Tensor sum = weight.sum(-1, true) + eps;
    grad = (grad - (grad * weight).sum(-1, true) / sum) / sum;
  }
  const Tensor of_score = at::zeros_like(score).scatter_add(-1, places, grad);
  const Tensor out =
      norm_type == 0 ? score * (of_score - (of_score * score).sum(-1, true)) : of_score * score * (1 - score);
  return out.to(grad_y.scalar_type());
}

// In finished rows each number is the count of all experts, which is the number of no expert.
Tensor numbers_of_experts(const Tensor& places, const Tensor& x, const OptionalTensor& finished) {
  const Tensor out = places.to(at::kInt);
  return finished ? out.masked_fill(finished->unsqueeze(-1), at::Scalar(x.sym_size(-1))) : out;
}

Three moe_gating_top_k_softmax(const Tensor& x, const OptionalTensor& finished, int64_t k) {
  constexpr const char* kOp = "npu_moe_gating_top_k_softmax";
  check_floating(kOp, "x", x);
  check_dims(kOp, "x", x, 2, 3);
  check_k(kOp, k, x);
  const Tensor score = wide(x).softmax(-1);
  const Tensor places = top_places(score, k);
  const c10::SymInt rows = places.sym_numel() / k;
  const Tensor row_idx =
      count_up(x, rows * k).view_symint({k, rows}).t().to(at::kInt).reshape_symint(places.sym_sizes());
  return {score.gather(-1, places).to(x.scalar_type()), numbers_of_experts(places, x, finished), row_idx.contiguous()};
}

Three moe_gating_top_k_softmax_v2(const Tensor& x, int64_t k, const OptionalTensor& finished,
                                  std::optional<int64_t> renorm, std::optional<bool> output_softmax) {
  constexpr const char* kOp = "npu_moe_gating_top_k_softmax_v2";
  check_floating(kOp, "x", x);
  check_dims(kOp, "x", x, 2, 3);
  check_k(kOp, k, x);
  const bool selected_only = renorm.value_or(0) == 1;
  check_choice(kOp, "renorm", renorm.value_or(0), {0, 1});
  const Tensor score = selected_only ? wide(x) : wide(x).softmax(-1);
  const Tensor places = top_places(score, k);
  const Tensor weight = score.gather(-1, places);
  const bool with_softmax = output_softmax.value_or(false) && !selected_only;
  return {(selected_only ? weight.softmax(-1) : weight).to(x.scalar_type()), numbers_of_experts(places, x, finished),
          with_softmax ? score : score.new_empty({0})};
}

// Expert e of row i becomes element i % number[e] of row e of the table: rows take turns with the copies of an expert.
Tensor numbers_of_copies(const char* op, const Tensor& experts, const Tensor& x, const OptionalTensor& number,
                         const OptionalTensor& table) {
  TORCH_CHECK(number && table, op, ": enable_expert_mapping needs mapping_num and mapping_table");
  check_dims(op, "mapping_num", *number, 1, 1);
  check_dims(op, "mapping_table", *table, 2, 2);
  TORCH_CHECK(number->sym_size(0) == x.sym_size(1) && table->sym_size(0) == x.sym_size(1), op,
              ": mapping_num and mapping_table have ", number->sym_size(0), " and ", table->sym_size(0),
              " rows, and not one for each of ", x.sym_size(1), " experts");
  const Tensor row = count_up(experts, experts.sym_size(0)).unsqueeze(-1);
  const Tensor copies = number->to(at::kLong).index_select(0, experts.flatten()).view_symint(experts.sym_sizes());
  return table->index({experts, row.remainder(copies.clamp_min(1))});
}

Two fused_add_topk_div(const Tensor& x, const Tensor& add_num, const OptionalTensor& mapping_num,
                       const OptionalTensor& mapping_table, std::optional<c10::string_view> activation,
                       int64_t group_num, int64_t group_topk, int64_t n, int64_t k, bool is_norm, double scale,
                       bool enable_expert_mapping) {
  constexpr const char* kOp = "npu_fused_add_topk_div";
  check_floating(kOp, "x", x);
  check_dims(kOp, "x", x, 2, 2);
  check_last_dims(kOp, "add_num", add_num, "x", x);
  check_k(kOp, k, x);
  check_groups(kOp, x, group_num, group_topk);
  TORCH_CHECK(!activation || *activation == "activation_sigmoid", kOp, ": activation_type is \"", *activation,
              "\", allowed is \"activation_sigmoid\"");
  check_summed(kOp, x, group_num, n);
  const Tensor score = wide(x).sigmoid();
  const Tensor choice = only_best_groups(score + wide(add_num), group_num, group_topk, n);
  const Tensor places = top_places(choice, k);
  const Tensor weight = score.gather(-1, places);
  const Tensor out = is_norm ? weight / weight.sum(-1, true) * scale : weight;
  const Tensor experts = enable_expert_mapping ? numbers_of_copies(kOp, places, x, mapping_num, mapping_table) : places;
  return {out.to(at::kFloat), experts.to(at::kInt)};
}

std::tuple<Tensor&, Tensor&> fused_add_topk_div_out(const Tensor& x, const Tensor& add_num,
                                                    const OptionalTensor& number, const OptionalTensor& table,
                                                    std::optional<c10::string_view> activation, int64_t group_num,
                                                    int64_t group_topk, int64_t n, int64_t k, bool is_norm,
                                                    double scale, bool mapping, Tensor& y, Tensor& indices) {
  const Two out =
      fused_add_topk_div(x, add_num, number, table, activation, group_num, group_topk, n, k, is_norm, scale, mapping);
  check_same_shape("npu_fused_add_topk_div", "y", y, "the result", std::get<0>(out));
  check_same_shape("npu_fused_add_topk_div", "indices", indices, "the result", std::get<1>(out));
  y.copy_(std::get<0>(out));
  indices.copy_(std::get<1>(out));
  return {y, indices};
}

}  // namespace

void define_moe_gating(OperatorLibrary& library) {
  library.add({
      .schema =
          "npu::npu_moe_gating_top_k(Tensor x, int k, *, Tensor? bias=None, Tensor? input_ids=None, Tensor? "
          "tid2eid=None, int k_group=1, int group_count=1, int group_select_mode=0, int renorm=0, int norm_type=0, "
          "bool out_flag=False, float routed_scaling_factor=1.0, float eps=1e-20) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&moe_gating_top_k),
      .definition = "Routes each token to the k experts with the highest gate scores (DeepSeek-V3, 2024). The scores "
                    "are softmax(x) (norm_type 0) or sigmoid(x) (norm_type 1), in float32. The choice is by score + "
                    "bias, and ties go to the lower expert. Only experts in the k_group best of group_count equal "
                    "groups are eligible; groups are ranked by their maximum (group_select_mode 0) or the sum of their "
                    "two largest values (group_select_mode 1). With input_ids [N] and tid2eid [vocabulary, k] the "
                    "experts are tid2eid[input_ids] instead (hash layers: Roller et al., 2021). x is [N, E], bias is "
                    "[E]. Results: y [N, k] in the type of x, the scores of the chosen experts without bias, divided "
                    "by their sum + eps where renorm or norm_type is 1, times routed_scaling_factor; the experts [N, "
                    "k] in int32; all scores [N, E] in float32. out_flag is ignored.",
  });
  library.add({
      .schema = "npu::npu_moe_gating_top_k_backward(Tensor x_norm, Tensor grad_y, Tensor expertIdx, *, int renorm=0, "
                "int norm_type=0, float routed_scaling_factor=1.0, float eps=1e-20) -> Tensor",
      .kernel = parts(&moe_gating_top_k_backward),
      .definition = "Gradient of npu_moe_gating_top_k with respect to x, from grad_y [N, k], the gradient of y. x_norm "
                    "[N, E] and expertIdx [N, k] are the scores and the experts that npu_moe_gating_top_k returned, "
                    "and the other arguments are those of its call. The result is [N, E] in the type of grad_y.",
  });
  library.add({
      .schema =
          "npu::npu_moe_gating_top_k_softmax(Tensor x, Tensor? finished=None, int k=1) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&moe_gating_top_k_softmax),
      .definition = "Routes each token to the k experts with the highest softmax(x), which is computed in float32. "
                    "Ties go to the lower expert. x is [N, E] or [B, S, E], with E experts. Results, each [N, k] or "
                    "[B, S, k]: y, the largest softmax values, in the type of x; the experts in int32, which are E for "
                    "each token where finished, bool [N] or [B, S], is true; and row_idx[i, j] = j * N + i in int32, "
                    "where i counts the tokens (N = B * S).",
  });
  library.add({
      .schema = "npu::npu_moe_gating_top_k_softmax_v2(Tensor x, *, int k=1, Tensor? finished=None, int? renorm=0, "
                "bool? output_softmax=False) -> (Tensor, Tensor, Tensor)",
      .kernel = parts(&moe_gating_top_k_softmax_v2),
      .definition = "npu_moe_gating_top_k_softmax with another third result: softmax(x) in float32 if output_softmax "
                    "is true and renorm is 0, and an empty tensor otherwise. With renorm 1, y is the softmax over the "
                    "k largest elements of x only.",
  });
}

void define_atb_gating(OperatorLibrary& library) {
  library.add({
      .schema = "atb::npu_fused_add_topk_div(Tensor x, Tensor add_num, *, Tensor? mapping_num=None, Tensor? "
                "mapping_table=None, str? activation_type=None, int group_num=1, int group_topk=1, int n=1, int k=1, "
                "bool is_norm=True, float scale=1, bool enable_expert_mapping=False) -> (Tensor, Tensor)",
      .kernel = parts(&fused_add_topk_div),
      .definition = "Group-limited routing with sigmoid scores (DeepSeek-V3, 2024). Each token chooses the k experts "
                    "with the highest sigmoid(x) + add_num, in float32, among the group_topk best of group_num equal "
                    "groups; groups are ranked by the sum of their n largest values. x is [N, E], add_num is [E]. "
                    "Results: y [N, k] in float32, sigmoid(x) of the chosen experts, with is_norm divided by their sum "
                    "and multiplied by scale; and the experts [N, k] in int32. With enable_expert_mapping, expert e of "
                    "token i becomes mapping_table[e, i % mapping_num[e]], one of its copies, so that tokens take "
                    "turns with them; mapping_num is [E], mapping_table is [E, copies]. activation_type is None or "
                    "activation_sigmoid.",
  });
  library.add({
      .schema = "atb::npu_fused_add_topk_div.out(Tensor x, Tensor add_num, *, Tensor? mapping_num=None, Tensor? "
                "mapping_table=None, str? activation_type=None, int group_num=1, int group_topk=1, int n=1, int k=1, "
                "bool is_norm=True, float scale=1, bool enable_expert_mapping=False, Tensor(a!) y, Tensor(b!) indices) "
                "-> (Tensor(a!), Tensor(b!))",
      .kernel = composite(&fused_add_topk_div_out),
      .definition = "npu_fused_add_topk_div that writes its results into y and indices.",
  });
}

}  // namespace npugraph::npu_ops
