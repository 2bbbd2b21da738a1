// SPDX-License-Identifier: Apache-2.0
#include "passes/rewrite.h"

#include <algorithm>

#include "base/error.h"
#include "ops/table.h"

namespace npugraph::passes {

bool makes_contiguous(const ir::Node& node) {
  static const ir::Op* kClone = row("aten.clone");
  return node.op == kClone && argument(node, "memory_format") == Attr(MemoryFormat::kContiguous);
}

int32_t find_argument(const ir::Op& op, std::string_view name) {
  const auto& args = op.schema.args;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].name == name) return static_cast<int32_t>(i);
  }
  return -1;
}

const Attr& argument(const ir::Node& node, std::string_view name) {
  const int32_t index = find_argument(*node.op, name);
  NG_CHECK(index >= 0, node.op->name, " has no argument ", name);
  return node.args[index];
}

Attr& argument(ir::Node& node, std::string_view name) {
  return const_cast<Attr&>(argument(static_cast<const ir::Node&>(node), name));
}

ir::ValueId as_value(const Attr& attr) {
  const auto* ref = std::get_if<TensorRef>(&attr);
  return ref ? ref->id : ir::kNone;
}

std::optional<int64_t> as_int(const Attr& attr) {
  const auto* expr = std::get_if<Expr>(&attr);
  return expr ? expr->as_int() : std::nullopt;
}

const std::vector<Expr>* as_ints(const Attr& attr) { return std::get_if<std::vector<Expr>>(&attr); }

std::optional<std::vector<Attr>> matching_arguments(const ir::Op& op, const ir::Node& node) {
  const auto& from = node.op->schema.args;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool is_default = from[i].has_default && node.args[i] == from[i].default_value;
    if (!is_default && find_argument(op, from[i].name) < 0) return std::nullopt;
  }
  std::vector<Attr> args;
  args.reserve(op.schema.args.size());
  for (const ir::SchemaArg& arg : op.schema.args) {
    const int32_t index = find_argument(*node.op, arg.name);
    if (index < 0 && !arg.has_default) return std::nullopt;
    args.push_back(index < 0 ? arg.default_value : node.args[index]);
  }
  return args;
}

const ir::Op* row(std::string_view name) { return &ops::require(name); }

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
  const auto types = ops::infer_types(graph, op, node.args);
  if (!types || types->size() != 1) return ir::kNone;
  if (op.is(ir::Trait::kView)) {
    const auto places = ops::infer_views(graph, op, node.args);
    if (!places || places->size() != 1) return ir::kNone;
    node.views = {{places->front().offset}};
  }
  return insert(graph, before, std::move(node), types->front(), std::move(name));
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
