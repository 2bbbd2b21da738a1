// SPDX-License-Identifier: Apache-2.0
// Gives tensors that are filled with one number explicit sizes and type, instead of a tensor that has the same.
//
//   %z = aten.zeros_like(%x)                ->    %z = aten.zeros([s0, 8], dtype=f32, device=device("cpu"))
//
// If the node read %x, it would keep %x in memory, and the node that computes %x could not run later.
//
// Requires: nothing. Run it after fold_constants, which would put into memory what loops can compute in registers.
// Guarantees: types and values.
// Must not: touch tensors that are not contiguous, nor uninitialised ones.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int detach_creations(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
