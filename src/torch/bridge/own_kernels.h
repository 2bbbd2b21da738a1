// SPDX-License-Identifier: Apache-2.0
// Kernels that replace kernels of ATen that are wrong or slow, or that promise less than passes need.
#pragma once

#include <ATen/core/operator_name.h>
#include <ATen/core/stack.h>

#include "torch/npu/export.h"

namespace npugraph::bridge {

using StackKernel = void (*)(torch::jit::Stack&);

// The kernel that replaces ATen's for an operator on CPU tensors, or on those over the memory of tensors of npu; null
// for nearly all operators.
NPUGRAPH_EXPORT StackKernel own_kernel(const c10::OperatorName& name, bool is_npu);

}  // namespace npugraph::bridge
