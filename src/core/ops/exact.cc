// SPDX-License-Identifier: Apache-2.0
#include "ops/exact.h"

#include <algorithm>

namespace npugraph::ops {
namespace {

// Whether the node has a factor `alpha` other than 1. Its result is rounded twice, or once if the compiler chooses a
// fused multiply-add.
bool has_factor(const ir::Node& node) {
  const auto& args = node.op->schema.args;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].name == "alpha") return node.args[i] != args[i].default_value;
  }
  return false;
}

// Products of complex numbers are sums, which vector code may round in another order.
bool is_complex(const ir::Graph& graph, ir::ValueId id) {
  return graph.value(id).is_tensor() && npugraph::is_complex(graph.value(id).tensor().dtype);
}

}  // namespace

bool is_exact(const ir::Graph& graph, const ir::Node& node) {
  if (!node.op->is(ir::Trait::kExact) || has_factor(node)) return false;
  const auto operands = ir::operands(node);
  return std::none_of(operands.begin(), operands.end(), [&](ir::ValueId id) { return is_complex(graph, id); });
}

}  // namespace npugraph::ops
