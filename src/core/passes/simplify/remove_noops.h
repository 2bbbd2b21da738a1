// SPDX-License-Identifier: Apache-2.0
// Removes operators whose result equals one of their operands.
//
//   %a = aten.mul.Tensor(%x, 1)                    %o = aten.exp(%x)
//   %b = aten.slice_scatter(%y, %a, 0, 0, 4)  ->
//   %c = aten.repeat(%b, [1, 1])
//   %o = aten.exp(%c)
//
// - x * 1, x / 1, x ^ 1, x - 0 and, for integers, x + 0. Not x + 0.0, which turns -0.0 into 0.0;
// - ceil, floor, round and trunc of integers; conversions to the same type;
// - repeat and tile by 1, constant_pad_nd by 0, slice_scatter that overwrites everything;
// - a concatenation of one tensor with others that have no elements.
//
// Guarantees: types, places in memory, and values to the bit, except for NaN payloads; the guarantees of remove_copies
// about writes and returned memory.
// Must not: touch copies, which are left to remove_copies, or functional copies, which mark the place of a write.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int remove_noops(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
