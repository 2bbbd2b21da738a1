// SPDX-License-Identifier: Apache-2.0
// Removes nodes that have no effect.
//
//   %a = aten.exp(%x)                              %b = aten.sin(%x)
//   %b = aten.sin(%x)                        ->    return %b
//   %z = aten.zeros([4])
//   %w = aten.add_.Tensor(%z, %b)
//   return %b
//
// A node stays if it draws random numbers, has a side effect, is opaque, defines a symbol that is used, writes memory
// that is read afterwards (inputs and outputs by the caller, constants by the next call), or if a result is used by a
// node that stays. Also drops unused constants.
//
// Guarantees: the order of nodes that stay. A node that may raise for its inputs counts as unused if its results are,
// as in the FX graph from which it came.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int dce(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
