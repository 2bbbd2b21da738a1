// SPDX-License-Identifier: Apache-2.0
// Access to arguments of nodes, for rules. Internal to lower/.
#pragma once

#include "ir/graph.h"
#include "ops/operators.h"
#include "tensor/shape.h"

namespace npugraph::lower {

// The type of a tensor; null if it is absent or not a tensor.
inline const ir::TensorType* tensor_type(const ir::Graph& graph, ir::ValueId id) {
  return id == ir::kNone ? nullptr : std::get_if<ir::TensorType>(&graph.value(id).type);
}
inline const ir::TensorType* tensor_type(const ir::Graph& graph, const Attr& argument) {
  return tensor_type(graph, ops::as_value(argument));
}

// Whether the elements fill their memory in row-major order.
inline bool is_dense(const ir::TensorType& type) { return is_contiguous(type.sizes, type.strides); }

// The argument `self`, of any operator that has it, and its type.
inline ir::ValueId self_of(const ir::Node& node) { return ops::as_value(arg::self(node)); }
inline const ir::TensorType* self_type(const ir::Graph& graph, const ir::Node& node) {
  return tensor_type(graph, self_of(node));
}

}  // namespace npugraph::lower
