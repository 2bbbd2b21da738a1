// SPDX-License-Identifier: Apache-2.0
// Operators of namespace atb beside attention and its caches.
#include "device/npu_ops/families.h"
#include "device/npu_ops/norms/norms.h"
#include "device/npu_ops/quantisation/quantisation.h"
#include "device/npu_ops/rotary/rotations.h"

namespace npugraph::npu_ops {
namespace {

void rotary_embedding(const Tensor& positions, Tensor& query, Tensor& key, int64_t head_size,
                      const Tensor& cos_sin_cache, bool is_neox_style) {
  const char* op = "_npu_rotary_embedding";
  check_dims(op, "positions", positions, 1, 2);
  check_dims(op, "cos_sin_cache", cos_sin_cache, 2, 2);
  const Rotation rotation = is_neox_style ? Rotation::kHalf : Rotation::kPairs;
  const auto angles = at::embedding(cos_sin_cache, positions).chunk(2, -1);
  for (Tensor* each : {&query, &key}) each->copy_(rotated_heads(*each, head_size, angles[0], angles[1], rotation));
}

void matmul_add_fp32(const Tensor& x, const Tensor& weight, Tensor& c) {
  const char* op = "_npu_matmul_add_fp32";
  check_dims(op, "x", x, 2, 2);
  check_dims(op, "weight", weight, 2, 2);
  check_type(op, "C", c, {at::kFloat});
  c.addmm_(x.to(at::kFloat).t(), weight.to(at::kFloat));
}

void group_topk(const Tensor& scores, int64_t k, int64_t group_num, int64_t n) {
  const char* op = "_npu_group_topk";
  check_floating(op, "self", scores);
  check_dims(op, "self", scores, 2, 2);
  TORCH_CHECK(group_num > 0 && scores.sym_size(1) % group_num == 0, op, ": self has ", scores.sym_size(1),
              " columns, which are not group_num = ", group_num, " groups");
  TORCH_CHECK(k >= 0 && k <= group_num, op, ": k is ", k, ", allowed are 0 to group_num = ", group_num);
  const Tensor groups = scores.unflatten(1, {group_num, -1});
  const Tensor best = std::get<1>(wide(std::get<0>(groups.topk(n, -1))).sum(-1).topk(k, -1));
  const Tensor kept = at::zeros_like(groups.select(-1, 0), at::kBool).scatter(1, best, true);
  scores.masked_fill_(kept.unsqueeze(-1).expand_as(groups).flatten(1).logical_not(), 0);
}

void quant_rms_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& scale, const Tensor& offset,
                    Tensor& output, double eps) {
  const char* op = "_npu_quant_rms_norm";
  check_type(op, "output", output, {at::kChar});
  const Tensor normed = rms_normed(op, x, gamma, eps).wide + wide(beta);
  output.copy_(statically_quantised(op, normed, scale, offset, /*divide=*/true, QuantType{}));
}

void atb_quantize_per_tensor(const Tensor& x, const Tensor& scale, const Tensor& zero_point, Tensor& y) {
  const char* op = "_npu_quantize_per_tensor";
  check_floating(op, "x", x);
  check_type(op, "y", y, {at::kChar});
  y.copy_(statically_quantised(op, wide(x), scale, zero_point, /*divide=*/true, QuantType{}));
}

}  // namespace

void define_atb_serving(OperatorLibrary& library) {
  library.add({
      .schema = "atb::_npu_rotary_embedding(Tensor positions, Tensor(a!) query, Tensor(b!) key, int head_size, Tensor "
                "cos_sin_cache, bool is_neox_style) -> ()",
      .kernel = parts(&rotary_embedding),
      .traits = {.overwrites = true},
      .definition = "Rotary position embedding of query and key in place, as by the rotary_embedding kernel of vLLM. "
                    "positions is [T], query and key are [T, N * head_size], and row positions[t] of cos_sin_cache, "
                    "[positions, rotary_dim], has the cosines and then the sines of token t. The first rotary_dim "
                    "elements of each head are rotated: elements i and i + rotary_dim / 2 together with "
                    "is_neox_style, otherwise elements 2i and 2i + 1.",
  });
  library.add({
      .schema = "atb::_npu_matmul_add_fp32(Tensor x, Tensor weight, Tensor(a!) C) -> ()",
      .kernel = parts(&matmul_add_fp32),
      .definition = "GEMM that accumulates in place: C += x^T @ weight. x is [k, m] and weight is [k, n], both "
                    "converted to float32; C is [m, n] in float32.",
  });
  library.add({
      .schema = "atb::_npu_group_topk(Tensor self, int k=0, int group_num=1, int n=1) -> ()",
      .kernel = composite(&group_topk),
      .definition = "Group-limited routing of tokens to experts (DeepSeek-V3, 2024), in place: the scores of the best "
                    "k groups of experts stay, and all other scores become 0. The score of a group is the sum of the "
                    "n largest scores in it. self has the scores, [tokens, experts] in a floating type, and each "
                    "group consists of experts / group_num consecutive columns.",
  });
  library.add({
      .schema = "atb::_npu_quant_rms_norm(Tensor self, Tensor gamma, Tensor beta, Tensor scale, Tensor offset, "
                "Tensor(a!) output, float eps=1e-05) -> ()",
      .kernel = parts(&quant_rms_norm),
      .definition = "npu_rms_norm with a shift, statically quantised to int8 and written into output: "
                    "round((npu_rms_norm(self, gamma, eps) + beta) / scale + offset), rounded half to even and "
                    "saturated. beta, scale and offset broadcast against self.",
  });
  library.add({
      .schema = "atb::_npu_quantize_per_tensor(Tensor x, Tensor scale, Tensor zero_point, Tensor(a!) y) -> ()",
      .kernel = parts(&atb_quantize_per_tensor),
      .definition = "Static quantisation to int8, written into y: round(x / scale + zero_point), rounded half to even "
                    "and saturated. x is in a floating type; scale and zero_point have one element, or broadcast "
                    "against x.",
  });
}

}  // namespace npugraph::npu_ops
