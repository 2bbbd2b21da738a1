// SPDX-License-Identifier: Apache-2.0
// Lets an operator write into its operand if that operand is an intermediate without later uses.
//
//   %a = aten.zeros([4, 4])                        %a = aten.zeros([4, 4])
//   %b = aten.index_copy(%a, 0, %i, %x)      ->    %b = aten.index_copy_(%a, 0, %i, %x)
//   %c = aten.relu(%b)                             %c = aten.relu_(%b)
//   return %c                                      return %c
//
// For the index family and the scatters this saves a copy of the whole operand; for elementwise operators it saves
// arena. It also shortens chains of updates of an input to one link, which is what reinplace_inputs knows how to
// handle.
//
// Requires: nothing. Run it before reinplace_inputs.
// Guarantees: the written memory is fresh, has exactly the type of the result, and is used by no node that may run in
// parallel; no later node and no output reads the overwritten elements; a returned tensor covers all of its memory. The
// node keeps its place.
// Must not: write inputs, constants or results of opaque callables; touch random operators.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int reinplace_intermediates(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
