// SPDX-License-Identifier: Apache-2.0
// Scalar meaning of elementwise operators: what one element of the result is, as loop IR.
//
// Rules follow ATen on the CPU: operands convert to the common type of the arguments, bf16 and f16 compute in f32, numbers
// are not rounded to the type of the tensors. The result is rounded once, to the result's type.
#pragma once

#include <functional>

#include "ir/graph.h"
#include "loop/builder.h"

namespace npugraph::ops {

// Where the values of a node's arguments come from.
struct ScalarSource {
  loop::Builder& builder;
  std::function<loop::Value(ir::ValueId tensor)> element;  // of the tensor's own type
  std::function<loop::Value(const Expr& scalar)> scalar;   // of an expression that is no constant, as f64
};

// Whether emit_scalar() can say what the node computes. In-place operators have no meaning of their own: ask their functional
// forms.
bool has_scalar_meaning(const ir::Graph& graph, const ir::Node& node);

// One element of the node's only result, of its type, from elements at the same place of its (broadcast) operands.
// Requires has_scalar_meaning().
loop::Value emit_scalar(const ir::Graph& graph, const ir::Node& node, const ScalarSource& source);

}  // namespace npugraph::ops
