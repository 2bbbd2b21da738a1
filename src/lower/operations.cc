// SPDX-License-Identifier: Apache-2.0
#include "lower/operations.h"

#include <algorithm>
#include <string_view>

namespace npugraph::lower {
namespace {

Expr elements(const ir::TensorType& type) {
  Expr count = 1;
  for (const Expr& size : type.sizes) count = count * size;
  return count;
}

// A call of which the tensor arguments are asked for, in order.
struct Call {
  const ir::Graph& graph;
  const ir::Node& node;
  std::vector<ir::ValueId> operands;

  const ir::TensorType& operand(size_t i) const { return graph.value(operands.at(i)).tensor(); }
  const ir::TensorType& result() const { return graph.value(node.results.at(0)).tensor(); }
};

using Rule = Expr (*)(const Call&);

// Each element of the result is a sum along the last dimension of factor `i`.
template <size_t i>
Expr product(const Call& call) {
  const ir::TensorType& factor = call.operand(i);
  return factor.sizes.empty() ? Expr(0) : 2 * elements(call.result()) * factor.sizes.back();
}

// Of one convolution between `outer`, its results (or what a transposed one takes), and `weight`.
Expr convolved(const ir::TensorType& outer, const ir::TensorType& weight) {
  Expr window = 1;
  for (size_t d = 1; d < weight.sizes.size(); ++d) window = window * weight.sizes[d];
  return 2 * elements(outer) * window;
}

bool is_true(const Attr& argument) {
  const auto* flag = std::get_if<Expr>(&argument);
  return flag != nullptr && flag->is_constant() && flag->value().as_bool();
}

Expr convolution(const Call& call) {
  constexpr size_t kTransposed = 6;  // among the arguments
  const bool transposed = is_true(call.node.args.at(kTransposed));
  return convolved(transposed ? call.operand(0) : call.result(), call.operand(1));
}

// As much as the convolution for each gradient that is a convolution itself: of the input and of the weight.
Expr convolution_backward(const Call& call) {
  const auto is_wanted = [&](size_t i) { return call.node.results.size() > i && call.node.results[i] != ir::kNone; };
  const int wanted = static_cast<int>(is_wanted(0)) + static_cast<int>(is_wanted(1));
  constexpr size_t kTransposed = 7;
  return wanted * convolved(call.operand(is_true(call.node.args.at(kTransposed)) ? 1 : 0), call.operand(2));
}

// Scores of each query and key, and sums of values by them; a mask that leaves some out is not looked at.
Expr attention(const Call& call) {
  const ir::TensorType& key = call.operand(1);
  if (key.sizes.size() < 2) return 0;
  const Expr& keys = key.sizes[key.sizes.size() - 2];
  return 2 * (elements(call.operand(0)) + elements(call.result())) * keys;
}

struct Row {
  std::string_view name;
  Rule rule;
};

constexpr Row kRows[] = {
    {"aten.mm", product<0>},
    {"aten.bmm", product<0>},
    {"aten.mv", product<0>},
    {"aten.dot", product<0>},
    {"aten.vdot", product<0>},
    {"aten.linear", product<0>},
    {"aten.matmul", product<0>},
    {"aten._int_mm", product<0>},
    {"aten._scaled_mm", product<0>},
    {"aten._weight_int8pack_mm", product<0>},
    {"aten._weight_int4pack_mm_for_cpu", product<0>},
    {"aten.addmm", product<1>},
    {"aten.addmm_", product<1>},
    {"aten.baddbmm", product<1>},
    {"aten.baddbmm_", product<1>},
    {"aten.addmv", product<1>},
    {"aten.addmv_", product<1>},
    {"aten._addmm_activation", product<1>},
    {"npu.npu_quant_matmul", product<0>},
    {"npu.npu_weight_quant_batchmatmul", product<0>},
    {"aten.convolution", convolution},
    {"aten._convolution", convolution},
    {"aten.convolution_backward", convolution_backward},
    {"aten.scaled_dot_product_attention", attention},
    {"aten._scaled_dot_product_flash_attention_for_cpu", attention},
    {"aten._scaled_dot_product_attention_math", attention},
    {"npugraph.attention", attention},
};

}  // namespace

Expr operations(const ir::Graph& graph, const ir::Node& node) {
  const Call call{.graph = graph, .node = node, .operands = ir::operands(node)};
  const auto is_strided = [&](ir::ValueId id) { return id == ir::kNone || graph.value(id).is_tensor(); };
  if (!std::ranges::all_of(call.operands, is_strided) || !std::ranges::all_of(node.results, is_strided)) return 0;
  const auto row = std::ranges::find(kRows, node.op->name, &Row::name);
  if (row != std::end(kRows)) return row->rule(call);
  if (node.op->is(ir::Trait::kCopyLike)) return 0;
  if (node.op->is(ir::Trait::kElementwise) && !node.results.empty()) return elements(call.result());
  if (node.op->is(ir::Trait::kReduction) && !call.operands.empty()) return elements(call.operand(0));
  return 0;
}

}  // namespace npugraph::lower
