// SPDX-License-Identifier: Apache-2.0
#include "frontend/importer.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "ir/text.h"
#include "ops/table.h"

namespace npugraph::frontend {

using ir::Trait;

namespace {

// Operators whose result is a lazy marker on the same memory in eager, or that resolve one, and the operator that computes the
// same values into fresh memory.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kLazyOperators = {{
    {"aten._conj", "aten::_conj_physical(Tensor self) -> Tensor"},
    {"aten._neg_view", "aten::neg(Tensor self) -> Tensor"},
    {"aten.resolve_conj", "aten::lift_fresh_copy(Tensor self) -> Tensor"},
    {"aten.resolve_neg", "aten::lift_fresh_copy(Tensor self) -> Tensor"},
}};

std::string name_of_schema(std::string_view schema) {
  const size_t colons = schema.find("::");
  const size_t paren = schema.find('(');
  NG_CHECK(colons != std::string_view::npos && paren != std::string_view::npos, "schema without a name: ", schema);
  return cat(schema.substr(0, colons), ".", schema.substr(colons + 2, paren - colons - 2));
}

Expr item_bytes(const ir::TensorType& type) { return Expr(size_of(type.dtype)); }

}  // namespace

Importer::Importer(std::string name, ir::OpResolver& ops) : ops_(ops) { graph_.name = std::move(name); }

void Importer::add_symbol(ir::Symbol symbol) { graph_.symbols.push_back(std::move(symbol)); }

void Importer::remember(ir::ValueId id, const TensorDescription& tensor) {
  places_.resize(graph_.num_values());
  if (const auto* type = std::get_if<ir::TensorType>(&tensor.type)) {
    places_[id] = {tensor.storage, tensor.storage_offset * item_bytes(*type)};
  }
}

ir::ValueId Importer::add_input(const TensorDescription& tensor, std::string name, ir::InputKind kind,
                                std::string source) {
  const ir::ValueId id = graph_.add_value(tensor.type, std::move(name));
  remember(id, tensor);
  graph_.inputs.push_back({.value = id, .scalar = {}, .kind = kind, .source = std::move(source)});
  return id;
}

void Importer::add_scalar_input(Expr scalar, std::string source) {
  graph_.inputs.push_back(
      {.value = ir::kNone, .scalar = std::move(scalar), .kind = ir::InputKind::kUser, .source = std::move(source)});
}

ir::ValueId Importer::add_constant(const TensorDescription& tensor, std::string name,
                                   std::shared_ptr<const ir::ConstantData> data) {
  const ir::ValueId id = graph_.add_value(tensor.type, std::move(name));
  remember(id, tensor);
  graph_.constants.push_back({.value = id, .data = std::move(data), .derived = false});
  return id;
}

const ir::Op& Importer::op_for(const std::string& schema, ir::Traits traits) {
  const std::string name = name_of_schema(schema);
  for (const auto& [lazy, computed] : kLazyOperators) {
    if (name == lazy) return *ops_.intern(computed, 0);
  }
  if (const ir::Op* op = ops_.find(name)) return *op;
  return *ops_.intern(schema, traits);
}

// Places each result of a view in its base: where the front end put both in one storage, by their offsets there; else by the
// operator's own rule, if the result looks as the rule says (torch rewrites graphs without telling views of the new base).
// False, with the reason, when neither does: the operator returned a copy, and the node cannot be told apart from a view later.
bool Importer::place_views(const NodeDescription& node, const ir::Op& op, ir::Node& built) {
  const std::vector<ir::ValueId> tensors = ir::operands(built);
  if (tensors.empty() || !graph_.value(tensors[0]).is_tensor()) {
    refusal_ = cat(op.name, " returns a view of something that is not a strided tensor");
    return false;
  }
  const Place& base = places_[tensors[0]];
  std::optional<std::vector<ops::ViewResult>> rule;
  for (size_t i = 0; i < node.results.size(); ++i) {
    const auto* type = node.results[i] ? std::get_if<ir::TensorType>(&node.results[i]->type) : nullptr;
    if (type != nullptr && node.results[i]->storage == base.storage) {
      const Expr bytes = node.results[i]->storage_offset * item_bytes(*type) - base.byte_offset;
      built.views.push_back({Expr::make(ExprOp::kFloorDiv, {bytes, item_bytes(*type)})});
      continue;
    }
    if (!rule) rule = ops::infer_views(graph_, op, built.args);
    if (type == nullptr || !rule || (*rule)[i].sizes != type->sizes || (*rule)[i].strides != type->strides) {
      refusal_ = cat(op.name, " returned a copy where a view was possible");
      return false;
    }
    built.views.push_back({(*rule)[i].offset});
  }
  return true;
}

std::optional<std::vector<ir::ValueId>> Importer::add_node(const NodeDescription& node) {
  const ir::Op* op = &op_for(node.schema, node.traits);
  if (node.args.size() != op->schema.args.size()) {
    refusal_ = cat(op->name, " takes ", op->schema.args.size(), " arguments, ", node.args.size(), " were described");
    return std::nullopt;
  }
  ir::Node built;
  built.op = op;
  built.args = node.args;
  built.defines = node.defines;
  built.callable = node.callable;
  built.stream = node.stream;
  built.origin = {node.name, node.source};
  if (op->is(Trait::kView) && !place_views(node, *op, built)) return std::nullopt;

  std::vector<ir::Type> types;
  for (const auto& result : node.results) {
    if (result) types.push_back(result->type);
  }
  const ir::NodeId id = graph_.append(std::move(built), std::move(types), node.name);
  std::vector<ir::ValueId> values;
  auto next = graph_.node(id).results.begin();
  for (const auto& result : node.results) {
    values.push_back(result ? *next++ : ir::kNone);
    if (!result) continue;
    graph_.value(values.back()).result = static_cast<int32_t>(values.size()) - 1;
    remember(values.back(), *result);
  }
  graph_.node(id).results = values;
  return values;
}

void Importer::add_output(ir::Output output) { graph_.outputs.push_back(std::move(output)); }

ir::Graph Importer::finish() {
  const std::string violation = ir::verify(graph_);
  NG_CHECK(violation.empty(), "imported graph: ", violation, "\n", ir::print(graph_));
  return std::move(graph_);
}

}  // namespace npugraph::frontend
