// SPDX-License-Identifier: Apache-2.0
// Products of int8 matrices, which ATen's kernel computes wrongly of some operands, and on some processors.
#pragma once

#include <ATen/ATen.h>

namespace npugraph::npu {

// Whether at::_int_mm adds in 32 bits. Without AVX-512 VNNI, or where oneDNN is told not to use it, it adds pairs of products in
// 16 bits, where they saturate.
bool has_exact_int8_dot();

// `x` [m, n], whose sizes may be symbols, copied where its rows or columns overlap, as expand makes them: at::_int_mm reads such
// matrices wrongly.
at::Tensor without_overlap(const at::Tensor& x);

// Sums of products in float64, and in int32. Exact, unlike float32: sums of k products stay below 2^14 * k. It is a BLAS call,
// which int32 has none of.
at::Tensor int8_product_in_double(const at::Tensor& x1, const at::Tensor& x2);

// at::_int_mm and at::_int_mm_out of matrices of cpu as they should be: x1 [m, k] @ x2 [k, n] of int8, exact in int32.
at::Tensor int8_product(const at::Tensor& x1, const at::Tensor& x2);
at::Tensor& int8_product_out(at::Tensor& out, const at::Tensor& x1, const at::Tensor& x2);

}  // namespace npugraph::npu
