// SPDX-License-Identifier: Apache-2.0
// The rules of canonicalise for views. Those that rewrite a node do so in place and return whether they changed it.
#pragma once

#include "ir/graph.h"

namespace npugraph::passes {

// One spelling for an operator: _unsafe_view -> view, permute -> transpose.int -> t, non-negative dimensions, explicit
// sizes.
bool respell_view(ir::Graph& graph, ir::Node& node);

// view(view(x)) -> view(x), if that has the same meaning.
bool skip_inner_view(ir::Graph& graph, ir::Node& node);

// The nearest base in the chain of views that equals the result of `node`, or kNone.
ir::ValueId find_same_view(const ir::Graph& graph, const ir::Node& node);

}  // namespace npugraph::passes
