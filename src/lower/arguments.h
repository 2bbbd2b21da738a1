// SPDX-License-Identifier: Apache-2.0
// Arguments of nodes, as rules ask for them. Internal to lower/.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace npugraph::lower {

// The type of a tensor argument; null where it is absent or something else.
inline const ir::TensorType* tensor_argument(const ir::Graph& graph, const ir::Node& node, size_t arg) {
  const auto* ref = std::get_if<TensorRef>(&node.args[arg]);
  if (ref == nullptr || ref->id == TensorRef::kAbsent) return nullptr;
  return std::get_if<ir::TensorType>(&graph.value(ref->id).type);
}

// A number or truth value that is known.
inline std::optional<Scalar> constant_argument(const ir::Node& node, size_t arg) {
  const auto* number = std::get_if<Expr>(&node.args[arg]);
  if (number == nullptr || !number->is_constant()) return {};
  return number->value();
}

}  // namespace npugraph::lower
