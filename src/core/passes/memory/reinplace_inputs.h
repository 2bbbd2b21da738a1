// SPDX-License-Identifier: Apache-2.0
// Restores the in-place operators of mutated inputs. A functional graph computes the new value of an input in other
// memory and copies it over the input at the end. If the old value is not used in between, the operator can write the
// input itself.
//
//   %r = aten.index_copy(%k, 2, %i, %s)            %r = aten.index_copy_(%k, 2, %i, %s)
//   %o = aten.mul.Tensor(%r, 2)              ->    %o = aten.mul.Tensor(%r, 2)
//   %c = aten.copy_(%k, %r)
//
//   %v = aten.select.int(%x, 0, 1)                 %v = aten.select.int(%x, 0, 1)
//   %a = aten.add.Tensor(%v, 1)              ->    %a = aten.add_.Tensor(%v, 1)
//   %u = aten.select_scatter(%x, %a, 0, 1)
//   %c = aten.copy_(%x, %u)
//
//   %w = aten.clone(%k)                            my.update_(%k, %x)
//   my.update_(%w, %x)                       ->
//   %c = aten.copy_(%k, %w)
//
// There is one rule: a copy_(%d, %s) is dropped if the node that made %s can write %d's elements at its own place in
// the order. A scatter does so as view + copy_, to which the rule applies again. The rule covers copies into
// intermediates, too. A clone of %d that operators write in place before it is copied back is replaced by %d
// (memory/working_copy.h).
//
// Errors. Operators never move. Copies at the end of a graph that comes from functionalisation
// (PassContext::copy_epilogues) stand for writes that the user's program made where the value was computed, so putting
// them back there makes the state after an error exact. Any other copy_, and a functional aten.copy, is where the
// user's program wrote: its write moves ahead of no node that may fail, except for the writing node itself if a failure
// of that node leaves the memory unwritten. Epilogues that must stay copies are left to hoist_copies.
//
// Requires: reinplace_intermediates has run, or chains of several updates of one input stay copies.
// Guarantees: reads see the same elements as before; returned memory stays fresh; clears copy_epilogues, since
// afterwards every write is where the user's program wrote, except for the copies in PassContext::left_epilogues.
// Must not: move an operator, or write memory that the graph did not write.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int reinplace_inputs(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
