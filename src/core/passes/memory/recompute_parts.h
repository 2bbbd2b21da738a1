// SPDX-License-Identifier: Apache-2.0
// Computes a part that occurs twice in a concatenation twice, instead of copying it.
//
//                                              %b = aten.mul.Tensor(%x, %y)
//   %a = aten.mul.Tensor(%x, %y)         ->    %a = aten.mul.Tensor(%x, %y)
//   %c = aten.cat([%a, %a], 1)                 %c = aten.cat([%a, %b], 1)
//
// Lowering lets a node write into its place in a concatenation, but only into one. If an element costs no more to
// compute than to move, a second node saves the copy. Example: rotary embeddings repeat their frequencies.
//
// Requires: the part is computed by an exact elementwise operator (ops/node_facts.h) for the concatenation alone, and
// is not written afterwards. Runs after the last cse, which would undo it.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int recompute_parts(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
