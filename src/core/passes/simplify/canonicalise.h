// SPDX-License-Identifier: Apache-2.0
// Gives equivalent nodes one spelling, so that later passes match one form, and cse recognises equal nodes.
//
//   %a = aten._unsafe_view(%x, [4, -1])            %b = aten.view(%x, [2, 16])
//   %b = aten.view(%a, [2, 16])              ->    %t = aten.t(%w)
//   %t = aten.transpose.int(%w, -2, -1)            %m = aten.mm(%b, %t)
//   %u = aten.alias(%t)
//   %m = aten.mm(%b, %u)
//
// - views: _unsafe_view, and reshape where it is a view, become view with explicit sizes; an exchange of two dimensions
//   is t in two dimensions and transpose.int with rising, non-negative dimensions elsewhere; dimensions of select,
//   slice, unsqueeze and squeeze are not negative; bounds of slices are inside of the dimension;
// - a view that equals its base, or an earlier base (alias, detach, full slices, transposing twice), is replaced by it;
//   a view of a view reads the first base;
// - operands of commutative operators: a constant of the same type is the second one.
//
// Guarantees: types, places of views and values to the bit. Values that the graph returns are never replaced.
// Must not: touch nodes that make memory of their own (remove_noops and remove_copies do).
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int canonicalise(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
