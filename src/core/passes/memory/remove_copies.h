// SPDX-License-Identifier: Apache-2.0
// Removes copies whose readers may read the original instead.
//
//   %c = aten.clone(%a)                            %r = aten.mul.Tensor(%a, 2)
//   %r = aten.mul.Tensor(%c, 2)              ->
//   %s = aten.copy_(%x, %x)
//
// A copy that must stay, of a tensor that is made from sizes and numbers alone, makes that tensor again:
//
//   %z = aten.zeros([4])                           %z = aten.zeros([4])
//   %c = aten.clone(%z)                      ->    %c = aten.zeros([4])
//   %w = aten.add_(%c, %x)                         %w = aten.add_(%c, %x)
//
// Handles copy_ of a view onto itself, and clone, _to_copy, lift_fresh_copy and (once reinplace_inputs has run) copy
// whose result has exactly the type of its source: dtype, sizes, strides, device.
//
// Guarantees: no write to the source is seen by a later read of the copy, or the reverse; what the graph returns stays
// fresh memory.
// Must not: make an output share memory with an input, a constant or another output; keep a large buffer alive for a
// returned part of it; give up the in-place update of an input for a clone of its old value (reinplace_inputs decides
// that first).
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int remove_copies(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
