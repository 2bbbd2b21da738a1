// SPDX-License-Identifier: Apache-2.0
#include "ops/node_facts.h"

#include <algorithm>

#include "ops/handle.h"
#include "ops/row.h"
#include "tensor/shape.h"

namespace npugraph::ops {

namespace operations {
namespace {

const ir::TensorType& operand(const ir::Graph& graph, const ir::Node& node, size_t argument) {
  return graph.value(as_value(node.args[argument])).tensor();
}

const ir::TensorType& result(const ir::Graph& graph, const ir::Node& node) {
  return graph.value(node.results.at(0)).tensor();
}

// Operations of one convolution with `weight`. `outer` is its result, or the input of a transposed convolution.
Expr convolved(const ir::TensorType& outer, const ir::TensorType& weight) {
  Expr window = 1;
  for (size_t d = 1; d < weight.sizes.size(); ++d) window = window * weight.sizes[d];
  return 2 * numel(outer.sizes) * window;
}

bool is_true(const Attr& argument) {
  const auto flag = as_constant(argument);
  return flag && flag->as_bool();
}

}  // namespace

Expr product_along(const ir::Graph& graph, const ir::Node& node, size_t factor) {
  const ir::TensorType& type = operand(graph, node, factor);
  return type.sizes.empty() ? Expr(0) : 2 * numel(result(graph, node).sizes) * type.sizes.back();
}

Expr convolution(const ir::Graph& graph, const ir::Node& node) {
  enum : size_t { kInput = 0, kWeight = 1, kTransposed = 6 };
  const bool transposed = is_true(node.args[kTransposed]);
  return convolved(transposed ? operand(graph, node, kInput) : result(graph, node), operand(graph, node, kWeight));
}

Expr convolution_backward(const ir::Graph& graph, const ir::Node& node) {
  enum : size_t { kGradient = 0, kInput = 1, kWeight = 2, kTransposed = 7 };
  const auto is_wanted = [&](size_t i) { return node.results.size() > i && node.results[i] != ir::kNone; };
  const int wanted = static_cast<int>(is_wanted(0)) + static_cast<int>(is_wanted(1));
  const size_t outer = is_true(node.args[kTransposed]) ? kInput : kGradient;
  return wanted * convolved(operand(graph, node, outer), operand(graph, node, kWeight));
}

Expr attention(const ir::Graph& graph, const ir::Node& node) {
  enum : size_t { kQuery = 0, kKey = 1 };
  const ir::TensorType& key = operand(graph, node, kKey);
  if (key.sizes.size() < 2) return 0;
  const Expr& keys = key.sizes[key.sizes.size() - 2];
  return 2 * (numel(operand(graph, node, kQuery).sizes) + numel(result(graph, node).sizes)) * keys;
}

}  // namespace operations

Expr count_operations(const ir::Graph& graph, const ir::Node& node) {
  const auto operands = ir::operands(node);
  const auto is_strided = [&](ir::ValueId id) { return id == ir::kNone || graph.value(id).is_tensor(); };
  if (!std::ranges::all_of(operands, is_strided) || !std::ranges::all_of(node.results, is_strided)) return 0;
  const Row* row = row_of(*node.op);
  if (row != nullptr && row->operations != nullptr) return row->operations(graph, node);
  if (node.op->is(ir::Trait::kCopyLike)) return 0;
  if (node.op->is(ir::Trait::kElementwise) && !node.results.empty())
    return numel(graph.value(node.results.front()).tensor().sizes);
  if (node.op->is(ir::Trait::kReduction) && !operands.empty())
    return numel(graph.value(operands.front()).tensor().sizes);
  return 0;
}

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
