// SPDX-License-Identifier: Apache-2.0
// Lets a copy of a rearranged copy read the source of the first copy.
//
//   %c : {4, 1} = aten.clone(%x)                       %t : {1, 4} = aten.t(%x) view(0)
//   %t : {1, 4} = aten.t(%c) view(0)              ->   %d : {2, 1} = aten.clone(%t, memory_format=contiguous)
//   %d : {2, 1} = aten.clone(%t, memory_format=contiguous)
//
// If the second rearrangement undoes the first, canonicalise and remove_copies then leave no copy at all.
//
// Requires: the functional graph, before operators become in-place.
// Guarantees: the same elements in the same places; adds no copy, and one copy less runs.
// Must not: touch a copy that has another reader, or one whose source is written before the second copy.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int merge_copies(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
