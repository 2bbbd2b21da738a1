// SPDX-License-Identifier: Apache-2.0
// CPU kernels as kernels of the npu device, for any operator: what has no wrapper of its own (unboxed.h) runs through here.
#pragma once

#include <torch/library.h>

namespace npugraph::device {

// Registers, at PrivateUse1, the boxed kernel of every aten operator that has a CPU kernel and none of npu yet, and the
// fallback for operators that are made later (those of users). The registrations live as long as the process.
//
// Without it, operators that have a composite kernel beside the CPU one would take the composite: the dispatcher prefers it
// to a fallback.
void register_boxed_kernels();

}  // namespace npugraph::device
