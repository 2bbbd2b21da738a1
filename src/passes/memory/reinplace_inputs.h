// SPDX-License-Identifier: Apache-2.0
// Gives mutated inputs back their in-place operators. A functional graph computes the new value of an input aside and
// copies it over the input at the end; where nobody needs the old value meanwhile, the operator writes the input
// itself.
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
// The rule is one: a copy_(%d, %s) is dropped when the node that made %s can write %d's elements at its own place. A
// scatter does so as view + copy_, to which the rule applies again. It serves copies into intermediates as well. A clone of
// %d that operators write in place before it is copied back is %d itself (memory/working_copy.h).
//
// Errors. Operators never move. Copies at the end of a graph that comes from functionalisation
// (PassContext::copy_epilogues) stand for writes that the user's program made where the value was computed, so putting
// them back there makes the state after an error exact. Any other copy_, and a functional aten.copy, stands where the
// user's program wrote: its write moves ahead of no node that may fail, but for the one that writes where that has written
// nothing then. Epilogues that must stay copies are left to
// hoist_copies.
//
// Requires: reinplace_intermediates has run, or chains of several updates of one input stay copies.
// Guarantees: reads see what they saw; returned memory stays fresh; clears copy_epilogues, since afterwards every write
// stands where the user's program wrote.
// Must not: move an operator, or write memory that the graph did not write.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int reinplace_inputs(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
