// SPDX-License-Identifier: Apache-2.0
// Moves copy_ nodes up to the first place where they may stand. Part of reinplace_inputs.
//
//   %r = aten.mm(%x, %w)                    %r = aten.mm(%x, %w)
//   %o = aten.index.Tensor(%t, [%i])   ->   %c = aten.copy_(%x, %r)
//   %c = aten.copy_(%x, %r)                 %o = aten.index.Tensor(%t, [%i])
#pragma once

#include <vector>

#include "ir/graph.h"

namespace npugraph::passes {

// `copies` are copy_ nodes in program order. Each comes right behind the last node that makes or writes its source, or
// uses its destination. Views that it needs come along. Returns how many changed place.
int hoist_copies(ir::Graph& graph, const std::vector<ir::NodeId>& copies);

}  // namespace npugraph::passes
