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
// - operands of commutative operators: a constant stands second;
// - x * 1, x / 1, x - 0 and, for integers, x + 0 are x, where dtype, strides and memory allow it. x + 0.0 is not: it
//   makes 0.0 of -0.0;
// - a concatenation of one tensor with others that have no elements is that tensor, by the same conditions.
//
// Guarantees: types, places of views and values to the bit (NaN payloads aside). What the graph returns is never
// replaced.
// Must not: touch copies (remove_copies does), or the place of a write (a functional copy stays).
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int canonicalise(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
