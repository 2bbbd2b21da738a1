// SPDX-License-Identifier: Apache-2.0
// Kernels that replace kernels of ATen that are wrong or slow, or that promise less than passes need.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/operator_name.h>
#include <ATen/core/stack.h>

#include "backend/own_kernels/export.h"

namespace npugraph::own {

// `x` [m, n], whose sizes may be symbolic, or a copy if its rows or columns overlap, as after
// expand: at::_int_mm reads such matrices wrongly.
NPUGRAPH_EXPORT at::Tensor without_overlap(const at::Tensor& x);

// The product computed in float64, as int32. Exact, unlike float32: sums of k products stay below 2^14 * k. float64 has
// a BLAS routine, int32 has none.
NPUGRAPH_EXPORT at::Tensor int8_product_in_double(const at::Tensor& x1, const at::Tensor& x2);

// The correct form of at::_int_mm for cpu matrices, x1 [m, k] @ x2 [k, n] of int8, exact in int32. ATen's kernel
// computes wrong products of some operands and on some processors.
NPUGRAPH_EXPORT at::Tensor int8_product(const at::Tensor& x1, const at::Tensor& x2);

using StackKernel = void (*)(torch::jit::Stack&);

// The kernel that replaces ATen's for an operator on CPU tensors; null for nearly all operators. With `as_compiled`,
// products have the bits of compiled code, as all products have on devices other than cpu.
NPUGRAPH_EXPORT StackKernel own_kernel(const c10::OperatorName& name, bool as_compiled);

}  // namespace npugraph::own
