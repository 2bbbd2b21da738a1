// SPDX-License-Identifier: Apache-2.0
// Kernels that run in place of those of ATen that are wrong, or promise less than passes need.
#pragma once

#include <ATen/core/operator_name.h>
#include <ATen/core/stack.h>

namespace npugraph::bridge {

using StackKernel = void (*)(torch::jit::Stack&);

// That of an operator, for tensors of cpu; null for nearly all.
StackKernel own_kernel(const c10::OperatorName& name);

}  // namespace npugraph::bridge
