// SPDX-License-Identifier: Apache-2.0
// Removes operators that compute what one operand is already.
//
//   %a = aten.mul.Tensor(%x, 1)                    %o = aten.exp(%x)
//   %b = aten.slice_scatter(%y, %a, 0, 0, 4)  ->
//   %c = aten.repeat(%b, [1, 1])
//   %o = aten.exp(%c)
//
// - x * 1, x / 1, x ^ 1, x - 0 and, for integers, x + 0. x + 0.0 is not among them: it makes 0.0 of -0.0;
// - ceil, floor, round and trunc of integers; conversions to the same type;
// - repeat and tile by 1, constant_pad_nd by 0, slice_scatter into everything;
// - a concatenation of one tensor with others that have no elements.
//
// Guarantees: types, places in memory, and values to the bit (NaN payloads aside); the same about writes and what the graph
// returns as remove_copies.
// Must not: touch copies, which remove_copies does, or the place of a write (a functional copy).
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int remove_noops(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
