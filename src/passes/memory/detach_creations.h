// SPDX-License-Identifier: Apache-2.0
// Lets tensors of one number name their sizes and type, instead of a tensor that has the same.
//
//   %z = aten.zeros_like(%x)                ->    %z = aten.zeros([s0, 8], dtype=f32, device=device("cpu"))
//
// Reading %x, the node would keep it in memory, and keep what computes it from running later.
//
// Requires: nothing. Run it behind fold_constants, which would make memory of what loops compute in registers.
// Guarantees: types and values.
// Must not: touch tensors that are not contiguous, nor those without particular elements.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int detach_creations(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
