// SPDX-License-Identifier: Apache-2.0
// Operators around norms, activations and states of which no definition is published: sizes and types of their results.
#include <tuple>

#include "torch/npu_ops/families.h"
#include "torch/npu_ops/microscaling.h"

namespace npugraph::npu_ops {
namespace {

Tensor like(const Tensor& x) { return x.new_empty_symint(x.sym_sizes()); }

std::tuple<Tensor, Tensor> swiglu_mx_quant(const Tensor& x, const OptionalTensor&, int64_t activate_dim, bool, int64_t,
                                           double, double, double, int64_t, int64_t axis, int64_t dst_type,
                                           c10::string_view, int64_t, double) {
  const char* op = "npu_swiglu_mx_quant";
  for (const int64_t dim : {activate_dim, axis})
    TORCH_CHECK_NOT_IMPLEMENTED(dim == -1 || dim == x.dim() - 1, op, ": dimension ", dim,
                                ", of which sizes are known for the last one");
  const ElementType type = element_type(op, "dst_type", dst_type);
  const c10::SymInt columns = x.sym_size(-1) / 2;
  c10::SymDimVector values(x.sym_sizes().begin(), x.sym_sizes().end() - 1), scale = values;
  values.push_back(type.storage == at::kByte ? columns / 2 : columns);
  scale.push_back((columns + 63) / 64);
  scale.push_back(2);
  return {x.new_empty_symint(values, x.options().dtype(type.storage)),
          x.new_empty_symint(scale, x.options().dtype(at::kFloat8_e8m0fnu))};
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
  npu.shaped("npu_swiglu_mx_quant", &swiglu_mx_quant);
  npu.shaped("npu_fused_causal_conv1d", &fused_causal_conv1d);
  npu.shaped("npu_fused_causal_conv1d_v2", &fused_causal_conv1d_v2);
  npu.shaped("npu_masked_causal_conv1d", &masked_causal_conv1d);
  npu.shaped("npu_masked_causal_conv1d_backward", &masked_causal_conv1d_backward);
  npu.shaped("npu_mhc_post", &mhc_post);
}

}  // namespace npugraph::npu_ops
