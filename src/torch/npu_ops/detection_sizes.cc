// SPDX-License-Identifier: Apache-2.0
// Operators that have no plain published definition: sizes and types of their results.
#include <tuple>

#include "torch/npu_ops/checks.h"
#include "torch/npu_ops/families.h"

namespace npugraph::npu_ops {
namespace {

using Two = std::tuple<Tensor, Tensor>;

Tensor like(const Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); }

Tensor stft_backward(const Tensor&, const Tensor& input, int64_t, std::optional<int64_t>, std::optional<int64_t>,
                     const OptionalTensor&, bool, std::optional<bool>, std::optional<bool>) {
  return like(input);
}

}  // namespace

void define_detection_sizes(Definitions& npu) {
  npu.shaped("stft_backward", &stft_backward);
}

}  // namespace npugraph::npu_ops
