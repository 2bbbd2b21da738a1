// SPDX-License-Identifier: Apache-2.0
// Linear layers by generated code.
#pragma once

#include <optional>

#include "torch/npu_ops/framework/checks.h"

namespace npugraph::npu_ops {

// input @ weight^T of tensors in memory, [..., n] for a weight [n, k], with sums in float32. The weight may be the
// transpose of a matrix [k, n] in memory. Nothing where a gradient is wanted, or generated code does not compute such a
// product.
std::optional<Tensor> generated_linear(const Tensor& input, const Tensor& weight);

}  // namespace npugraph::npu_ops
