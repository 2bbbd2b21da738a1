// SPDX-License-Identifier: Apache-2.0
// The operator that EXEC_NPU_CMD of backend/bridge/torch.h calls. It is found by name, so extensions link nothing of
// npugraph.
#pragma once

namespace npugraph::bridge {

// Defines npugraph::exec_npu_cmd(str name, Any[] arguments) -> (). It runs the kernel of a library that `name` means
// (libraries/launch.h) on tensors of any device, below autograd: arguments of the kernel's operator in order, then a
// tensor for each of its new results. Once in the process.
void define_exec_npu_cmd();

}  // namespace npugraph::bridge
