// SPDX-License-Identifier: Apache-2.0
// The rules of canonicalise for views. Each rewrites one node where it stands and says whether it changed it.
#pragma once

#include "ir/graph.h"

namespace npugraph::passes {

// One spelling for an operator: _unsafe_view -> view, permute -> transpose.int -> t, non-negative dimensions, explicit
// sizes.
bool respell_view(ir::Graph& graph, ir::Node& node);

// view(view(x)) -> view(x), where that has the same meaning.
bool skip_inner_view(ir::Graph& graph, ir::Node& node);

// The nearest value above in the chain of views that `node` gives back unchanged, or kNone.
ir::ValueId find_same_view(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::passes
