// SPDX-License-Identifier: Apache-2.0
// Products of floating-point matrices by generated code.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "backend/own_kernels/export.h"

namespace npugraph::own {

// x1 @ x2 of cpu tensors in memory, with sums in float32: [.., m, k] @ [k, n] or [b, m, k] @ [b, k, n]. Strides are
// arbitrary. The bits are those of compiled code. Nothing where a gradient is wanted, or generated code does not
// compute such a product.
NPUGRAPH_EXPORT std::optional<at::Tensor> generated_product(const at::Tensor& x1, const at::Tensor& x2);

// aten::mm, bmm and addmm with the bits of compiled code, and their forms with `out`: generated products, or those of
// ATen where compiled code calls ATen.
NPUGRAPH_EXPORT at::Tensor mm_as_compiled(const at::Tensor& self, const at::Tensor& mat2);
NPUGRAPH_EXPORT at::Tensor bmm_as_compiled(const at::Tensor& self, const at::Tensor& mat2);
NPUGRAPH_EXPORT at::Tensor addmm_as_compiled(const at::Tensor& self, const at::Tensor& mat1, const at::Tensor& mat2,
                                             const at::Scalar& beta, const at::Scalar& alpha);
NPUGRAPH_EXPORT at::Tensor& mm_out_as_compiled(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out);
NPUGRAPH_EXPORT at::Tensor& bmm_out_as_compiled(const at::Tensor& self, const at::Tensor& mat2, at::Tensor& out);
NPUGRAPH_EXPORT at::Tensor& addmm_out_as_compiled(const at::Tensor& self, const at::Tensor& mat1,
                                                  const at::Tensor& mat2, const at::Scalar& beta,
                                                  const at::Scalar& alpha, at::Tensor& out);

// The product of two matrices (`dims` 2) or two batches of them (3) where it is faster than that of ATen: of
// elements of two bytes, unless it is so small that the call of the task takes longer than the product.
std::optional<at::Tensor> faster_product(const at::Tensor& x1, const at::Tensor& x2, int64_t dims);

}  // namespace npugraph::own
