// SPDX-License-Identifier: Apache-2.0
// Moves an elementwise operator from a concatenation to its parts, so that parts are computed instead of copied.
//
//   %c = aten.cat([%n, %x], 1)                 %s0 = aten.slice.Tensor(%s, 1, 0, 4) view(...)
//   %m = aten.mul.Tensor(%c, %s)         ->    %p0 = aten.mul.Tensor(%n, %s0)
//                                              %s1 = aten.slice.Tensor(%s, 1, 4, 8) view(...)
//                                              %p1 = aten.mul.Tensor(%x, %s1)
//                                              %m = aten.cat([%p0, %p1], 1)
//
// A part that a node has just computed needs no copy: lowering lets the node write into the concatenation. A part that
// is an input, a view or used elsewhere (here %x) must be copied, unless a result computed from it is written there.
// Half of each rotary embedding has this form.
//
// Requires: the operator is the only reader of the concatenation, and gives the same bits however elements are grouped;
// other operands have the size of the concatenation along its dimension, or broadcast along it.
// Guarantees: types and values to the bit; at most as many tasks and copies as before.
// Must not: touch operators that write or reduce, nor a concatenation that the graph returns.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int sink_cat(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
