// SPDX-License-Identifier: Apache-2.0
// One spelling for what means the same, so that later passes match one form, and cse sees equal things as equal.
//
//   %a = aten._unsafe_view(%x, [4, -1])            %b = aten.view(%x, [2, 16])
//   %b = aten.view(%a, [2, 16])              ->    %t = aten.t(%w)
//   %t = aten.transpose.int(%w, -2, -1)            %m = aten.mm(%b, %t)
//   %u = aten.alias(%t)
//   %m = aten.mm(%b, %u)
//
// - views: _unsafe_view, and reshape where it is a view, become view with explicit sizes; an exchange of two dimensions
//   is t in two dimensions and transpose.int with rising, non-negative dimensions elsewhere; dimensions of select,
//   slice, unsqueeze and squeeze are not negative, bounds of slices lie inside of the dimension;
// - a view that gives its base, or an earlier base, back (alias, detach, full slices, transposing twice) is replaced by
//   it; a view of a view reads the first base;
// - operands of commutative operators: a constant stands second.
//
// Guarantees: types, places of views and values to the bit. What the graph returns is never replaced.
// Must not: touch what makes memory of its own (remove_noops and remove_copies do).
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int canonicalise(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
