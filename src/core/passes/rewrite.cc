// SPDX-License-Identifier: Apache-2.0
#include "passes/rewrite.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "ops/operators.h"
#include "ops/table.h"

namespace npugraph::passes {

bool makes_contiguous(const ir::Node& node) {
  return aten::clone::is(node) && aten::clone::memory_format.attr(node) == Attr(MemoryFormat::kContiguous);
}

bool has_unit_alpha(const ir::Node& node) {
  const Attr* alpha = arg::alpha.find(node);
  return alpha == nullptr || ops::as_int(*alpha) == 1;
}

// Goes by position, not by name: operators that are not in the table may have Trait::kCommutative, too.
std::optional<std::pair<ir::ValueId, ir::ValueId>> exchangeable_operands(const ir::Node& node) {
  if (!node.op->is(ir::Trait::kCommutative) || !has_unit_alpha(node) || node.args.size() < 2) return std::nullopt;
  const std::pair operands(ops::as_value(node.args.front()), ops::as_value(*std::next(node.args.begin())));
  return operands.first == ir::kNone || operands.second == ir::kNone ? std::nullopt : std::optional(operands);
}

void exchange_operands(std::vector<Attr>& args) { std::iter_swap(args.begin(), std::next(args.begin())); }

ir::Node with_defaults(const ir::Op& op) {
  ir::Node node{.op = &op};
  for (const ir::SchemaArg& arg : op.schema.args) node.args.push_back(arg.default_value);
  return node;
}

std::optional<std::vector<Attr>> matching_arguments(const ir::Op& op, const ir::Node& node) {
  const auto& from = node.op->schema.args;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool is_default = from[i].has_default && node.args[i] == from[i].default_value;
    if (!is_default && !ops::ArgumentName{from[i].name}.position(op)) return std::nullopt;
  }
  std::vector<Attr> args;
  args.reserve(op.schema.args.size());
  for (const ir::SchemaArg& arg : op.schema.args) {
    const Attr* given = ops::ArgumentName{arg.name}.find(node);
    if (given == nullptr && !arg.has_default) return std::nullopt;
    args.push_back(given == nullptr ? arg.default_value : *given);
  }
  return args;
}

namespace {

ir::ValueId insert(ir::Graph& graph, ir::NodeId before, ir::Node node, const ir::Type& made, std::string name) {
  node.section = graph.node(before).section;
  node.origin = graph.node(before).origin;
  return graph.node(graph.insert_before(before, std::move(node), {made}, std::move(name))).results[0];
}

}  // namespace

ir::ValueId insert_before(ir::Graph& graph, ir::NodeId before, const ir::Op& op, std::vector<Attr> args,
                          const ir::TensorType& made, std::string name) {
  return insert(graph, before, {.op = &op, .args = std::move(args)}, made, std::move(name));
}

ir::ValueId insert_before(ir::Graph& graph, ir::NodeId before, const ir::Op& op, std::vector<Attr> args,
                          std::string name) {
  ir::Node node{.op = &op, .args = std::move(args)};
  auto inferred = ops::infer_results(graph, node);
  if (!inferred || inferred->types.size() != 1 || !inferred->types.front()) return ir::kNone;
  node.views = std::move(inferred->views);
  return insert(graph, before, std::move(node), *inferred->types.front(), std::move(name));
}

void Replacements::replace(ir::ValueId from, ir::ValueId to) {
  to = resolve(to);
  NG_CHECK(from != to && graph_.value(from).type == graph_.value(to).type, "%", graph_.value(from).name,
           " cannot become %", graph_.value(to).name);
  by_[from] = to;
  any_ = true;
}

ir::ValueId Replacements::resolve(ir::ValueId id) const {
  while (static_cast<size_t>(id) < by_.size() && by_[id] != ir::kNone) id = by_[id];
  return id;
}

void Replacements::rewrite_operands(ir::Node& node) const {
  if (!any_) return;
  for (Attr& arg : node.args) {
    for_each_tensor(arg, [this](TensorRef& ref) { ref.id = resolve(ref.id); });
  }
}

void Replacements::apply() {
  if (any_) graph_.replace_uses(by_);
}

bool broadcasts_to(std::span<const Expr> sizes, std::span<const Expr> to) {
  return sizes.size() <= to.size() &&
         std::equal(sizes.rbegin(), sizes.rend(), to.rbegin(),
                    [](const Expr& size, const Expr& of_to) { return size.is_int(1) || size == of_to; });
}

}  // namespace npugraph::passes
