// SPDX-License-Identifier: Apache-2.0
// Scalar meaning of elementwise operators: the formula of one element of the result, as loop IR.
//
// Rules follow ATen on the CPU: operands convert to the common type of the arguments, bf16 and f16 compute in f32,
// numbers are rounded to bf16 and f16 where the row says so. The result is rounded once, to the result's type.
#pragma once

#include <functional>

#include "ir/graph.h"
#include "loop/builder.h"

namespace npugraph::ops {

// Source of the values of a node's arguments.
struct ScalarSource {
  loop::Builder& builder;
  std::function<loop::Value(ir::ValueId tensor)> element;  // of the tensor's own type
  std::function<loop::Value(const Expr& scalar)> scalar;   // of a non-constant expression, as f64
};

// Whether emit_scalar() supports the node. In-place operators have no scalar meaning of their own; use their functional
// forms.
bool has_scalar_meaning(const ir::Graph& graph, const ir::Node& node);

// One element of the node's only result, of its type, from elements at the same place of its (broadcast) operands.
// Requires has_scalar_meaning().
loop::Value emit_scalar(const ir::Graph& graph, const ir::Node& node, const ScalarSource& source);

}  // namespace npugraph::ops
