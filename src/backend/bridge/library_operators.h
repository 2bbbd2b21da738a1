// SPDX-License-Identifier: Apache-2.0
// The operators of users' libraries in torch: definitions, and kernels for eager mode. Those run on the CPU, and so on
// npu tensors, too.
#pragma once

#include <vector>

#include <ATen/core/operator_name.h>

#include "libraries/library.h"

namespace npugraph::bridge {

// Defines the operators of these kernels that torch does not know yet, and gives those a CPU kernel that have none.
// Both stay until the process ends. An eager call asks the operator's Meta function for the types of its results, runs
// the kernel in the calling thread, and splits its loops over torch's threads.
//
// UserError if torch knows one of the operators with another schema; the others are not defined then.
// The launches of these kernels (libraries/launch.h) are defined, too, with a kernel on meta that does nothing.
void define_operators(const std::vector<const libraries::Kernel*>& kernels);

// The operator in torch that has this kernel.
c10::OperatorName operator_of(const libraries::Kernel& kernel);

// Defines npugraph::exec_npu_cmd(str name, Any[] arguments) -> (), which EXEC_NPU_CMD of backend/bridge/torch.h finds
// by name, so that extensions link nothing of npugraph. It runs the kernel of a library that `name` means
// (libraries/launch.h) on tensors of any device, below autograd: arguments of the kernel's operator in order, then a
// tensor for each of its new results. Once in the process.
void define_exec_npu_cmd();

}  // namespace npugraph::bridge
