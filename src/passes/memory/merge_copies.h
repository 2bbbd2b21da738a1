// SPDX-License-Identifier: Apache-2.0
// Lets a copy of a rearranged copy read what the first one reads.
//
//   %c : {4, 1} = aten.clone(%x)                       %t : {1, 4} = aten.t(%x) view(0)
//   %t : {1, 4} = aten.t(%c) view(0)              ->   %d : {2, 1} = aten.clone(%t, memory_format=contiguous)
//   %d : {2, 1} = aten.clone(%t, memory_format=contiguous)
//
// Where the second rearrangement undoes the first, canonicalise and remove_copies then leave no copy at all.
//
// Requires: the functional graph, before operators become in-place.
// Guarantees: the same elements in the same places; no copy that was not there, and one less to run.
// Must not: touch a copy that somebody else reads, or one whose source is written before it is read again.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int merge_copies(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
