// SPDX-License-Identifier: Apache-2.0
// Moves the copies that write mutated inputs to the earliest possible place, so that an error in a later node loses no
// write that the user's program had completed. Not optional: it makes the graph right, not fast.
//
//   %r = aten.mm(%x, %w)                    %r = aten.mm(%x, %w)
//   %o = aten.index.Tensor(%t, [%i])   ->   %c = aten.copy_(%x, %r)
//   %c = aten.copy_(%x, %r)                 %o = aten.index.Tensor(%t, [%i])
//
// Each copy is put right after the last node that makes or writes its source, or uses its destination; at the start if
// there is none. Views that it needs move along.
//
// Guarantees: clears PassContext::copy_epilogues.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int hoist_copies(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
