// SPDX-License-Identifier: Apache-2.0
// Kernels that replace kernels of ATen that are wrong or slow, or that promise less than passes need.
#pragma once

#include <ATen/core/operator_name.h>
#include <ATen/core/stack.h>

#include "backend/own_kernels/export.h"

namespace npugraph::own {

using StackKernel = void (*)(torch::jit::Stack&);

// The kernel that replaces ATen's for an operator on CPU tensors; null for nearly all operators. With `as_compiled`,
// products have the bits of compiled code, as all products have on devices other than cpu.
NPUGRAPH_EXPORT StackKernel own_kernel(const c10::OperatorName& name, bool as_compiled);

}  // namespace npugraph::own
