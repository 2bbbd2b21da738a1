// SPDX-License-Identifier: Apache-2.0
// Products of int8 matrices, which ATen's kernel computes wrongly for some operands and on some processors.
#pragma once

#include <ATen/core/Tensor.h>

#include "backend/own_kernels/export.h"

namespace npugraph::own {

// `x` [m, n], whose sizes may be symbolic, or a copy if its rows or columns overlap, as after
// expand: at::_int_mm reads such matrices wrongly.
NPUGRAPH_EXPORT at::Tensor without_overlap(const at::Tensor& x);

// The product computed in float64, as int32. Exact, unlike float32: sums of k products stay below 2^14 * k. float64 has
// a BLAS routine, int32 has none.
NPUGRAPH_EXPORT at::Tensor int8_product_in_double(const at::Tensor& x1, const at::Tensor& x2);

// Correct forms of at::_int_mm and at::_int_mm_out for cpu matrices: x1 [m, k] @ x2 [k, n] of int8, exact in int32.
NPUGRAPH_EXPORT at::Tensor int8_product(const at::Tensor& x1, const at::Tensor& x2);
at::Tensor& int8_product_out(at::Tensor& out, const at::Tensor& x1, const at::Tensor& x2);

}  // namespace npugraph::own
