// SPDX-License-Identifier: Apache-2.0
// Arguments of Ascend's operators that may be on the host.
#pragma once

namespace npugraph::npu_ops {

// Declares such arguments of all operators (torch/npu/operators.h, torch/npu/host_arguments.h).
void declare_host_arguments();

}  // namespace npugraph::npu_ops
