// SPDX-License-Identifier: Apache-2.0
#include "frontend/importer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/words.h"
#include "ir/alias.h"
#include "ir/text.h"
#include "ops/operators.h"
#include "ops/table.h"

namespace npugraph::frontend {

using ir::Trait;

namespace {

Expr item_bytes(const ir::TensorType& type) { return Expr(size_of(type.dtype)); }

}  // namespace

Importer::Importer(std::string name, ir::OpResolver& ops) : ops_(ops) { graph_.name = std::move(name); }

void Importer::add_symbol(ir::Symbol symbol) { graph_.symbols.push_back(std::move(symbol)); }

void Importer::set_sections(std::vector<ir::Section> sections) { graph_.sections = std::move(sections); }

void Importer::remember(ir::ValueId id, const TensorDescription& tensor, int32_t input) {
  places_.resize(graph_.num_values());
  if (const auto* type = std::get_if<ir::TensorType>(&tensor.type)) {
    places_[id] = {tensor.storage, tensor.storage_offset * item_bytes(*type), input};
  }
}

ir::ValueId Importer::add_input(const TensorDescription& tensor, std::string name, ir::InputKind kind,
                                std::string source) {
  const ir::ValueId id = graph_.add_value(tensor.type, std::move(name));
  remember(id, tensor, static_cast<int32_t>(graph_.inputs.size()));
  graph_.inputs.push_back({.value = id, .scalar = {}, .kind = kind, .source = std::move(source)});
  return id;
}

void Importer::add_scalar_input(Expr scalar, std::string source) {
  graph_.inputs.push_back(
      {.value = ir::kNone, .scalar = std::move(scalar), .kind = ir::InputKind::kUser, .source = std::move(source)});
}

ir::ValueId Importer::add_constant(const TensorDescription& tensor, std::string name,
                                   std::shared_ptr<const ir::ConstantData> data, bool derived) {
  const ir::ValueId id = graph_.add_value(tensor.type, std::move(name));
  remember(id, tensor, ir::kNone);
  graph_.constants.push_back({.value = id, .data = std::move(data), .derived = derived});
  return id;
}

const ir::Op& Importer::op_for(const std::string& schema, ir::Traits traits) {
  // Looked up by schema, because a name may be given to another operator while the process runs.
  const ir::Op& op = *ops_.intern(schema, traits);
  // In eager, these operators set a lazy mark on the same memory, or resolve one. They are replaced by operators that
  // compute the same values into fresh memory.
  if (aten::_conj::is(op)) return aten::_conj_physical::op();
  if (aten::_neg_view::is(op)) return aten::neg::op();
  if (ops::is_any<aten::resolve_conj, aten::resolve_neg>(op)) return aten::lift_fresh_copy::op();
  return op;
}

// The offset of a result in its base, in elements of the result. 0 for an empty tensor, whose storage offset may lie
// anywhere, even outside of the base.
Expr Importer::offset_in(const TensorDescription& result, const Place& base) const {
  if (ir::is_empty(std::get<ir::TensorType>(result.type))) return 0;
  const Expr bytes = item_bytes(std::get<ir::TensorType>(result.type));
  return Expr::make(ExprOp::kFloorDiv, {result.storage_offset * bytes - base.byte_offset, bytes});
}

// Computes the offset of each result of a view operator in its base. If the front end put both into one storage, the
// offset follows from their storage offsets. Otherwise it follows from the operator's own rule, provided that the
// result has the sizes and strides of the rule (graph rewrites of torch do not update the storages of views of the new
// base). If neither applies, the operator returned a copy: refuses the node, because nothing would later tell it apart
// from a view.
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
      built.views.push_back({offset_in(*node.results[i], base)});
      continue;
    }
    if (!rule) rule = ops::infer_views(graph_, op, built.args);
    if (type == nullptr || !rule || !ops::is_view(*type, (*rule)[i], graph_.symbols)) {
      refusal_ = cat(op.name, " returned a copy where a view was possible");
      return false;
    }
    built.views.push_back({(*rule)[i].offset});
  }
  return true;
}

// Adds an operator that may return an argument or a view of one, which its schema alone cannot tell. If the front end
// put the results into the storages of arguments, they become views of these. Otherwise the node is refused: its
// results would have to be taken for fresh memory, although its operator may share memory.
Importer::Values Importer::add_shared(const NodeDescription& node, const ir::Node& built) {
  const std::vector<ir::ValueId> shared = ir::shared_operands(built);
  for (size_t i = 0; i < shared.size(); ++i) {
    const bool placed = shared[i] != ir::kNone && graph_.value(shared[i]).is_tensor() && node.results[i] &&
                        node.results[i]->storage == places_[shared[i]].storage;
    if (placed) continue;
    refusal_ = cat(built.op->name, " may return its argument, and here returns other memory");
    return std::nullopt;
  }
  std::vector<ir::ValueId> values;
  for (size_t i = 0; i < shared.size(); ++i) {
    const TensorDescription& result = *node.results[i];
    const auto& type = std::get<ir::TensorType>(result.type);
    const Expr offset = offset_in(result, places_[shared[i]]);
    ir::Node strided;
    strided.op = &aten::as_strided::op();
    strided.args = {TensorRef{shared[i]}, type.sizes, type.strides, None{}};
    if (!offset.is_int(0)) aten::as_strided::storage_offset.attr(strided) = result.storage_offset;
    strided.views = {{offset}};
    strided.section = node.section;
    strided.origin = built.origin;
    const auto added = append(std::move(strided), {.name = node.name, .results = {result}});
    values.push_back(added->front());
  }
  return values;
}

// If the node addresses storage by offset, requires its inputs to keep their own storage offsets: these are not
// guarded, and with other ones the node would read another place.
void Importer::note_named_place(const ir::Node& node) {
  const Attr* offset = arg::storage_offset.find(node);
  if (offset == nullptr || std::holds_alternative<None>(*offset)) return;
  for (const ir::ValueId operand : ir::operands(node)) {
    if (!graph_.value(operand).is_tensor() || places_[operand].input == ir::kNone) continue;
    ir::Input& input = graph_.inputs[places_[operand].input];
    const Expr bytes = item_bytes(graph_.value(input.value).tensor());
    input.storage_offset = Expr::make(ExprOp::kFloorDiv, {places_[input.value].byte_offset, bytes});
  }
}

// The node gets windows that begin where its operands do and takes them for storages, so each operand must begin at
// offset 0 of its storage. An input with an operand that does not gets an offset that no tensor has.
void Importer::require_start_of_storage(const ir::Node& node) {
  for (const ir::ValueId operand : ir::operands(node)) {
    if (!graph_.value(operand).is_tensor() || places_[operand].input == ir::kNone) continue;
    const bool at_start = places_[operand].byte_offset.is_int(0);
    graph_.inputs[places_[operand].input].storage_offset = Expr(at_start ? 0 : ir::Input::kNowhere);
  }
}

Importer::Values Importer::append(ir::Node built, const NodeDescription& node) {
  const std::vector<ir::ValueId> operands = ir::operands(built);
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
    const auto same = std::ranges::find_if(operands, [&](ir::ValueId operand) {
      return graph_.value(operand).is_tensor() && places_[operand].storage == result->storage;
    });
    remember(values.back(), *result, same == operands.end() ? ir::kNone : places_[*same].input);
  }
  graph_.node(id).results = values;
  return values;
}

Importer::Values Importer::add_node(const NodeDescription& node) {
  const ir::Op* op = &op_for(node.schema, node.traits);
  if (node.args.size() != op->schema.args.size()) {
    refusal_ =
        cat(op->name, " takes ", counted(op->schema.args.size(), "argument"), " and was given ", node.args.size());
    return std::nullopt;
  }
  ir::Node built;
  built.op = op;
  built.args = node.args;
  built.results.resize(node.results.size(), ir::kNone);
  built.defines = node.defines;
  built.callable = node.callable;
  built.section = node.section;
  built.origin = {node.name, node.source};
  const bool is_view = op->is(Trait::kView) && op->in_table();
  if (!is_view && std::ranges::any_of(ir::shared_operands(built), [](ir::ValueId id) { return id != ir::kNone; })) {
    return add_shared(node, built);
  }
  built.results.clear();
  if (is_view && !place_views(node, *op, built)) return std::nullopt;
  note_named_place(built);
  if (node.counts_from_storage) require_start_of_storage(built);
  return append(std::move(built), node);
}

void Importer::add_output(ir::Output output) { graph_.outputs.push_back(std::move(output)); }

bool Importer::names_places() const {
  return std::ranges::any_of(graph_.inputs, [](const ir::Input& input) { return input.storage_offset.has_value(); });
}

ir::Graph Importer::finish() {
  const std::string violation = ir::verify(graph_);
  NG_CHECK(violation.empty(), "imported graph: ", violation, "\n", ir::print(graph_));
  return std::move(graph_);
}

}  // namespace npugraph::frontend
