// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "ir/alias.h"
#include "ir/bounds.h"
#include "ir/text.h"
#include "ops/row.h"
#include "ops/shapes/shapes.h"
#include "ops/table.h"
#include "ops/views/views.h"
#include "tensor/shape.h"

namespace npugraph::ops {
namespace {

// Every result is a written argument, of the same type.
Types types_of_returned(const Call& call) {
  ir::Node node;
  node.op = &call.op;
  node.args = call.args;
  node.results.assign(call.op.schema.returns.size(), 0);
  std::vector<ir::Type> types;
  for (const ir::ValueId returned : ir::returned_operands(node)) {
    if (returned == ir::kNone) return std::nullopt;
    types.push_back(call.graph.value(returned).type);
  }
  return types;
}

Types types_of_call(const Call& call) {
  const Row* row = row_of(call.op);
  if (row == nullptr) return std::nullopt;
  if (row->view != nullptr) return shapes::parts(call, row->view);
  if (row->shape != nullptr) return row->shape(call);
  if (ir::result_count(call.op.schema).most == 0) return std::vector<ir::Type>();
  return call.op.is(ir::Trait::kMutates) ? types_of_returned(call) : std::nullopt;
}

// Whether the two certainly differ. Unequal expressions may still have equal values.
bool contradict(const Expr& a, const Expr& b) {
  if (a == b) return false;
  const auto difference = (a - b).as_int();
  return difference && *difference != 0;
}

bool contradict(const ir::TensorType& declared, const ir::TensorType& rule, bool any_order = false) {
  if (declared.dtype != rule.dtype || declared.device.type != rule.device.type) return true;
  if (declared.sizes.size() != rule.sizes.size()) return true;
  for (size_t i = 0; i < rule.sizes.size(); ++i) {
    if (contradict(declared.sizes[i], rule.sizes[i])) return true;
  }
  if (any_order) return false;
  // Strides mean nothing without elements, and in dimensions with one.
  for (const Expr& size : rule.sizes) {
    if (size.is_int(0)) return false;
  }
  for (size_t i = 0; i < rule.sizes.size(); ++i) {
    if (!rule.sizes[i].is_int(1) && contradict(declared.strides[i], rule.strides[i])) return true;
  }
  return false;
}

bool contradict(const ir::Type& declared, const ir::Type& rule, bool any_order) {
  const auto* a = std::get_if<ir::TensorType>(&declared);
  const auto* b = std::get_if<ir::TensorType>(&rule);
  return a != nullptr && b != nullptr && contradict(*a, *b, any_order);
}

bool is_undefined(const ir::Type& type) {
  const auto* opaque = std::get_if<ir::OpaqueType>(&type);
  return opaque != nullptr && opaque->what.empty();
}

// Whether both are the same expression, or the same number for all values of the symbols.
bool is_equal(const Expr& a, const Expr& b, const std::vector<ir::Symbol>& symbols) {
  return a == b || (ir::is_nonnegative(a - b, symbols) && ir::is_nonnegative(b - a, symbols));
}

// Whether every declared size and stride that matters is the rule's: strides mean nothing without elements, and in
// dimensions with one.
bool is_same_layout(const ir::TensorType& declared, const std::vector<Expr>& sizes, const std::vector<Expr>& strides,
                    const std::vector<ir::Symbol>& symbols) {
  if (declared.sizes.size() != sizes.size()) return false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!is_equal(declared.sizes[i], sizes[i], symbols)) return false;
  }
  if (ir::is_empty(declared)) return true;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Expr x = without_at_least_one(declared.strides[i]), y = without_at_least_one(strides[i]);
    if (!declared.sizes[i].is_int(1) && !is_equal(x, y, symbols)) return false;
  }
  return true;
}

bool is_same(const ir::Type& declared, const ir::Type& rule, const std::vector<ir::Symbol>& symbols) {
  const auto* a = std::get_if<ir::TensorType>(&declared);
  const auto* b = std::get_if<ir::TensorType>(&rule);
  if (a == nullptr || b == nullptr) return declared == rule;
  return !contradict(*a, *b) && is_same_layout(*a, b->sizes, b->strides, symbols);
}

std::string compare_node(const ir::Graph& graph, const ir::Node& node) {
  if (!has_rule(*node.op)) return "no rule";
  const auto types = infer_types(graph, *node.op, node.args, node.defines);
  if (!types) return "open";
  if (types->size() < node.results.size()) {
    return cat("differs: ", node.results.size(), " results; the rule gives ", types->size());
  }
  for (size_t i = 0; i < types->size(); ++i) {
    const bool has_result = i < node.results.size() && node.results[i] != ir::kNone;
    if (has_result == is_undefined((*types)[i])) return cat("differs: which results are undefined, at ", i);
    if (!has_result) continue;
    const ir::Value& result = graph.value(node.results[i]);
    if (is_same(result.type, (*types)[i], graph.symbols)) continue;
    return cat("differs: the type is ", ir::to_text(result.type), "; the rule gives ", ir::to_text((*types)[i]));
  }
  return "agrees";
}

std::string verify_node(const ir::Graph& graph, const ir::Node& node) {
  const auto types = infer_types(graph, *node.op, node.args, node.defines);
  if (!types) return "";
  if (types->size() != node.results.size()) {
    return cat(node.op->name, ": ", node.results.size(), " results; the rule of the operator gives ", types->size());
  }
  const auto views = node.op->is(ir::Trait::kView) ? infer_views(graph, *node.op, node.args) : std::nullopt;
  for (size_t i = 0; i < types->size(); ++i) {
    if (node.results[i] == ir::kNone) continue;
    const ir::Value& result = graph.value(node.results[i]);
    if (contradict(result.type, (*types)[i], row_of(*node.op)->any_order)) {
      return cat("%", result.name, " = ", node.op->name, ": the type is ", ir::to_text(result.type),
                 "; the rule of the operator gives ", ir::to_text((*types)[i]));
    }
    if (views && i < node.views.size() && contradict(node.views[i].offset, (*views)[i].offset)) {
      return cat("%", result.name, " = ", node.op->name, ": the view offset is ", node.views[i].offset.str(),
                 "; the rule of the operator gives ", (*views)[i].offset.str());
    }
  }
  return "";
}

}  // namespace

std::optional<std::vector<ir::Type>> infer_types(const ir::Graph& graph, const ir::Op& op,
                                                 const std::vector<Attr>& args,
                                                 const std::vector<ir::SymbolDef>& defines) {
  return types_of_call({graph, op, args, defines});
}

std::optional<ir::Inferred> infer_results(const ir::Graph& graph, const ir::Node& node, OpenStrides open_strides) {
  const auto types = types_of_call({graph, *node.op, node.args, node.defines, open_strides});
  if (!types) return std::nullopt;
  ir::Inferred inferred;
  for (const ir::Type& type : *types) {
    inferred.types.push_back(is_undefined(type) ? std::nullopt : std::optional(type));
  }
  if (node.op->is(ir::Trait::kView)) {
    const auto views = infer_views(graph, *node.op, node.args);
    if (!views) return std::nullopt;
    for (const ViewResult& view : *views) inferred.views.push_back({view.offset});
  }
  return inferred;
}

bool has_rule(const ir::Op& op) {
  const Row* row = row_of(op);
  if (row == nullptr) return false;
  return row->view != nullptr || row->shape != nullptr || op.is(ir::Trait::kMutates) ||
         ir::result_count(op.schema).most == 0;
}

bool is_view(const ir::TensorType& type, const ViewResult& view, const std::vector<ir::Symbol>& symbols) {
  return is_same_layout(type, view.sizes, view.strides, symbols);
}

std::optional<std::vector<ViewResult>> infer_views(const ir::Graph& graph, const ir::Op& op,
                                                   const std::vector<Attr>& args) {
  const Row* row = row_of(op);
  if (row == nullptr || row->view == nullptr) return std::nullopt;
  return row->view(Call{graph, op, args, {}});
}

std::vector<std::string> compare_types(const ir::Graph& graph) {
  std::vector<std::string> lines;
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (node.dead) continue;
    try {
      lines.push_back(cat(node.op->name, ": ", compare_node(graph, node)));
    } catch (const UserError& error) {
      lines.push_back(cat(node.op->name, ": raises: ", error.what()));
    }
  }
  return lines;
}

std::string verify_types(const ir::Graph& graph) {
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (node.dead) continue;
    try {
      if (std::string error = verify_node(graph, node); !error.empty()) return error;
    } catch (const UserError& error) {
      return error.what();
    }
  }
  return "";
}

}  // namespace npugraph::ops
