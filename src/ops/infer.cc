// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "ir/text.h"
#include "ops/row.h"
#include "ops/verify_types.h"
#include "ops/views.h"

namespace npugraph::ops {
namespace {

const Row* row_of(const ir::Op& op) { return op.in_table ? static_cast<const RegisteredOp&>(op).row : nullptr; }

Types types_of_views(const Call& call, const Row& row) {
  auto views = row.view(call);
  const auto dtype = views::result_dtype(row.view, call);
  if (!views || !dtype) return std::nullopt;
  std::vector<ir::Type> types;
  for (ViewResult& view : *views) {
    types.emplace_back(ir::TensorType{*dtype, std::move(view.sizes), std::move(view.strides), call.tensor(0)->device});
  }
  return types;
}

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

// Certainly different: equal expressions are equal, but unequal ones may be too.
bool contradict(const Expr& a, const Expr& b) {
  if (a == b) return false;
  const auto difference = (a - b).as_int();
  return difference && *difference != 0;
}

bool contradict(const ir::TensorType& declared, const ir::TensorType& rule) {
  if (declared.dtype != rule.dtype || declared.device.type != rule.device.type) return true;
  if (declared.sizes.size() != rule.sizes.size()) return true;
  for (size_t i = 0; i < rule.sizes.size(); ++i) {
    if (contradict(declared.sizes[i], rule.sizes[i])) return true;
  }
  // Strides mean nothing without elements, and in dimensions with one.
  for (const Expr& size : rule.sizes) {
    if (size.is_int(0)) return false;
  }
  for (size_t i = 0; i < rule.sizes.size(); ++i) {
    if (!rule.sizes[i].is_int(1) && contradict(declared.strides[i], rule.strides[i])) return true;
  }
  return false;
}

bool contradict(const ir::Type& declared, const ir::Type& rule) {
  const auto* a = std::get_if<ir::TensorType>(&declared);
  const auto* b = std::get_if<ir::TensorType>(&rule);
  return a != nullptr && b != nullptr && contradict(*a, *b);
}

std::string verify_node(const ir::Graph& graph, const ir::Node& node) {
  const auto types = infer_types(graph, *node.op, node.args);
  if (!types) return "";
  if (types->size() != node.results.size()) {
    return cat(node.op->name, ": ", node.results.size(), " results; the rule of the operator gives ", types->size());
  }
  const auto views = node.op->is(ir::Trait::kView) ? infer_views(graph, *node.op, node.args) : std::nullopt;
  for (size_t i = 0; i < types->size(); ++i) {
    if (node.results[i] == ir::kNone) continue;
    const ir::Value& result = graph.value(node.results[i]);
    if (contradict(result.type, (*types)[i])) {
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
                                                 const std::vector<Attr>& args) {
  const Row* row = row_of(op);
  if (row == nullptr) return std::nullopt;
  const Call call{graph, op, args};
  if (row->view != nullptr) return types_of_views(call, *row);
  if (row->shape != nullptr) return row->shape(call);
  return op.is(ir::Trait::kMutates) ? types_of_returned(call) : std::nullopt;
}

std::optional<std::vector<ViewResult>> infer_views(const ir::Graph& graph, const ir::Op& op,
                                                   const std::vector<Attr>& args) {
  const Row* row = row_of(op);
  if (row == nullptr || row->view == nullptr) return std::nullopt;
  return row->view(Call{graph, op, args});
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
