// SPDX-License-Identifier: Apache-2.0
// Products of floating-point matrices by generated code.
#pragma once

#include <optional>

#include <ATen/ATen.h>

namespace npugraph::npu {

// x1 @ x2 of cpu tensors in memory, with sums in float32: [.., m, k] @ [k, n] or [b, m, k] @ [b, k, n]. Strides are
// arbitrary. Nothing where a gradient is wanted, or generated code does not compute such a product.
std::optional<at::Tensor> generated_product(const at::Tensor& x1, const at::Tensor& x2);

// The product of two matrices (`dims` 2) or two batches of them (3) where it is faster than that of ATen: of
// elements of two bytes, unless it is so small that the call of the task takes longer than the product.
std::optional<at::Tensor> faster_product(const at::Tensor& x1, const at::Tensor& x2, int64_t dims);

}  // namespace npugraph::npu
