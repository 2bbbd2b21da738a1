// SPDX-License-Identifier: Apache-2.0
// Removes what nobody can notice.
//
//   %a = aten.exp(%x)                              %b = aten.sin(%x)
//   %b = aten.sin(%x)                        ->    return %b
//   %z = aten.zeros([4])
//   %w = aten.add_.Tensor(%z, %b)
//   return %b
//
// A node stays when it draws random numbers, has a side effect, is opaque, defines a symbol that is used, writes memory
// that somebody reads afterwards (the caller reads inputs and outputs), or when a result is used by a node that stays.
// Also drops constants that nobody uses.
//
// Guarantees: the order of what stays. A node that may raise for its inputs counts as unused when its results are, as
// in the FX graph from which it came.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int dce(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
