// SPDX-License-Identifier: Apache-2.0
// Operators around norms, activations and states of which no definition is published: sizes and types of their results.
#include <tuple>

#include "torch/npu_ops/checks.h"
#include "torch/npu_ops/families.h"

namespace npugraph::npu_ops {
namespace {

bool is_pair_of_4_bits(at::ScalarType type) { return type == at::kFloat4_e2m1fn_x2; }

// Values of 32 along the last dimension share a scale of 8 bits, and scales come in pairs (OCP Microscaling Formats, 2023).
struct MxShapes {
  Tensor values, scale;
};

MxShapes mx_shapes(const char* op, const Tensor& x, const c10::SymInt& columns, int64_t dst_type) {
  const at::ScalarType type = type_of_code(op, "dst_type", dst_type, at::kFloat4_e2m1fn_x2);
  c10::SymDimVector values(x.sym_sizes().begin(), x.sym_sizes().end() - 1), scale = values;
  values.push_back(is_pair_of_4_bits(type) ? columns / 2 : columns);
  scale.push_back((columns + 63) / 64);
  scale.push_back(2);
  return {x.new_empty_symint(values, x.options().dtype(type)),
          x.new_empty_symint(scale, x.options().dtype(at::kFloat8_e8m0fnu))};
}

Tensor like(const Tensor& x) { return x.new_empty_symint(x.sym_sizes()); }

Tensor rstd_of(const Tensor& x) {
  c10::SymDimVector shape(x.sym_sizes().begin(), x.sym_sizes().end());
  shape.back() = 1;
  return x.new_empty_symint(shape, x.options().dtype(at::kFloat));
}

std::tuple<Tensor, Tensor, Tensor> rms_norm_dynamic_mx_quant(const Tensor& x, const Tensor&, const OptionalTensor&,
                                                             double, int64_t, c10::string_view, int64_t dst_type) {
  const MxShapes y = mx_shapes("npu_rms_norm_dynamic_mx_quant", x, x.sym_size(-1), dst_type);
  return {y.values, y.scale, rstd_of(x)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> add_rms_norm_dynamic_mx_quant(const Tensor& x1, const Tensor&, const Tensor&,
                                                                         const OptionalTensor&, double, int64_t,
                                                                         c10::string_view, int64_t dst_type) {
  const MxShapes y = mx_shapes("npu_add_rms_norm_dynamic_mx_quant", x1, x1.sym_size(-1), dst_type);
  return {y.values, like(x1), y.scale, rstd_of(x1)};
}

std::tuple<Tensor, Tensor> swiglu_mx_quant(const Tensor& x, const OptionalTensor&, int64_t activate_dim, bool, int64_t,
                                           double, double, double, int64_t, int64_t axis, int64_t dst_type,
                                           c10::string_view, int64_t, double) {
  const char* op = "npu_swiglu_mx_quant";
  for (const int64_t dim : {activate_dim, axis})
    TORCH_CHECK_NOT_IMPLEMENTED(dim == -1 || dim == x.dim() - 1, op, ": dimension ", dim,
                                ", of which sizes are known for the last one");
  const MxShapes y = mx_shapes(op, x, x.sym_size(-1) / 2, dst_type);
  return {y.values, y.scale};
}

Tensor fused_causal_conv1d(const Tensor& x, const Tensor&, Tensor&, const OptionalTensor&, const OptionalTensor&,
                           const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                           std::optional<c10::string_view>, std::optional<int64_t>, std::optional<int64_t>,
                           std::optional<int64_t>, std::optional<int64_t>, const OptionalTensor&, const OptionalTensor&,
                           const OptionalTensor&, const OptionalTensor&, std::optional<int64_t>,
                           std::optional<c10::string_view>) {
  return like(x);
}

void fused_causal_conv1d_v2(Tensor&, const Tensor&, Tensor&, const OptionalTensor&, const OptionalTensor&,
                            const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                            std::optional<c10::string_view>, std::optional<int64_t>, std::optional<int64_t>,
                            std::optional<int64_t>, std::optional<int64_t>, const OptionalTensor&,
                            const OptionalTensor&, const OptionalTensor&, const OptionalTensor&, std::optional<int64_t>,
                            std::optional<c10::string_view>) {}

Tensor masked_causal_conv1d(const Tensor& input, const Tensor&, const OptionalTensor&) { return like(input); }

std::tuple<Tensor, Tensor> masked_causal_conv1d_backward(const Tensor&, const Tensor& input, const Tensor& weight,
                                                         const OptionalTensor&) {
  return {like(input), like(weight)};
}

Tensor mhc_post(const Tensor& x, const OptionalTensor&, const Tensor&, const Tensor&) { return like(x); }

}  // namespace

void define_shaped_norms(Definitions& npu) {
  npu.shaped("npu_rms_norm_dynamic_mx_quant", &rms_norm_dynamic_mx_quant);
  npu.shaped("npu_add_rms_norm_dynamic_mx_quant", &add_rms_norm_dynamic_mx_quant);
  npu.shaped("npu_swiglu_mx_quant", &swiglu_mx_quant);
  npu.shaped("npu_fused_causal_conv1d", &fused_causal_conv1d);
  npu.shaped("npu_fused_causal_conv1d_v2", &fused_causal_conv1d_v2);
  npu.shaped("npu_masked_causal_conv1d", &masked_causal_conv1d);
  npu.shaped("npu_masked_causal_conv1d_backward", &masked_causal_conv1d_backward);
  npu.shaped("npu_mhc_post", &mhc_post);
}

}  // namespace npugraph::npu_ops
