// SPDX-License-Identifier: Apache-2.0
// Computes equal values once.
//
//   %a = aten.add.Tensor(%x, %y)                   %a = aten.add.Tensor(%x, %y)
//   %b = aten.add.Tensor(%y, %x)             ->    %m = aten.mul.Tensor(%a, %a)
//   %m = aten.mul.Tensor(%a, %b)
//
// Two nodes are equal if operator, arguments and section agree (the section of a view does not matter, operands of
// commutative operators may be exchanged if they have one type), and no operand is written between them. Memory counts
// by alias root: a write anywhere in a memory separates the reads before it from those after it.
//
// Guarantees: types of results agree exactly; a result that is written anywhere is never shared, nor are two that the
// graph returns; the first of equal nodes stays, in its place; no write of the user's program moves ahead of a node
// that may fail (PassContext::copy_epilogues).
// Must not: merge random, side-effecting, writing or opaque nodes, or nodes that define symbols.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int cse(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
