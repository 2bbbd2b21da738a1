// SPDX-License-Identifier: Apache-2.0
// Operators around norms, activations and states of which no definition is published: sizes and types of their results.
#include <tuple>

#include "torch/npu_ops/checks.h"
#include "torch/npu_ops/families.h"

namespace npugraph::npu_ops {
namespace {

Tensor like(const Tensor& x) { return x.new_empty_symint(x.sym_sizes()); }

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

}  // namespace

void define_shaped_norms(Definitions& npu) {
  npu.shaped("npu_fused_causal_conv1d", &fused_causal_conv1d);
  npu.shaped("npu_fused_causal_conv1d_v2", &fused_causal_conv1d_v2);
  npu.shaped("npu_masked_causal_conv1d", &masked_causal_conv1d);
  npu.shaped("npu_masked_causal_conv1d_backward", &masked_causal_conv1d_backward);
}

}  // namespace npugraph::npu_ops
