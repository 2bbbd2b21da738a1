// SPDX-License-Identifier: Apache-2.0
// The kernel and the definition of operators that give a workspace for attention, which on the host needs none.
#pragma once

#include "device/npu_ops/framework/call_arguments.h"

namespace npugraph::npu_ops {

// A tensor that callers pass on, and that nothing is written to.
inline void give_workspace(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  CallArguments call(op, stack);
  call.give(call.tensor({"query", "q_nope"}).new_empty({1}));
}

inline constexpr const char* kWorkspaceDefinition =
    "Workspace for the attention operator that the name says: an uninitialised tensor of one element, in the type of "
    "the query, to pass as workspace. Attention on the host makes no use of it. Other arguments are ignored, and an "
    "argument out is not written.";

}  // namespace npugraph::npu_ops
