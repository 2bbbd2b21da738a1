// SPDX-License-Identifier: Apache-2.0
#include "passes/in_place.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "ir/alias.h"
#include "ops/operators.h"
#include "ops/table.h"

namespace npugraph::passes {
namespace {

// Arguments of the view: those of the scatter without its source.
std::vector<Attr> view_arguments(const ir::Op& view, const ir::Node& scatter) {
  std::vector<Attr> args;
  for (const ir::SchemaArg& arg : view.schema.args) args.push_back(ops::ArgumentName{arg.name}(scatter));
  return args;
}

// The place of the part that a scatter overwrites, taken from an existing view with the same arguments: the source of a
// scatter is mostly computed from such a view of the old part. Used if the rule of the view cannot infer the place,
// because a symbol among the arguments may be negative and then counts from the end.
std::optional<ops::ViewResult> find_old_part(const ir::Graph& graph, const InPlaceForm& form) {
  const ir::NodeId made = form.source == ir::kNone ? ir::kNone : graph.value(form.source).def;
  if (made == ir::kNone) return std::nullopt;
  for (const ir::ValueId operand : ir::operands(graph.node(made))) {
    const ir::NodeId part = graph.value(operand).def;
    if (part == ir::kNone || graph.node(part).op != form.twin || graph.node(part).args != form.args) continue;
    if (graph.node(part).views.size() != 1) continue;
    const ir::TensorType& type = graph.value(operand).tensor();
    return ops::ViewResult{type.sizes, type.strides, graph.node(part).views.front().offset};
  }
  return std::nullopt;
}

std::optional<InPlaceForm> scatter_form(const ir::Graph& graph, const ir::Node& node, const ir::Op* view) {
  InPlaceForm form{.twin = view, .is_scatter = true, .args = view_arguments(*view, node)};
  form.target = ops::as_value(arg::self(node));
  form.source = ops::as_value(arg::src(node));
  const auto places = ops::infer_views(graph, *view, form.args);
  const auto place = places ? std::optional(places->front()) : find_old_part(graph, form);
  if (!place) return std::nullopt;
  form.part = graph.value(form.target).tensor();
  form.part.sizes = place->sizes;
  form.part.strides = place->strides;
  form.offset = place->offset;
  return form;
}

std::optional<InPlaceForm> twin_form(const ir::Node& node, const ir::Op* twin) {
  auto args = matching_arguments(*twin, node);
  if (!args) return std::nullopt;
  InPlaceForm form{.twin = twin, .args = std::move(*args)};
  for (size_t i = 0; i < twin->schema.args.size(); ++i) {
    if (twin->schema.args[i].is_write) form.target = ops::as_value(form.args[i]);
  }
  return form;
}

}  // namespace

bool have_same_elements(const ir::TensorType& a, const ir::TensorType& b) {
  return a.dtype == b.dtype && a.sizes == b.sizes && a.device == b.device;
}

std::optional<InPlaceForm> in_place_form(const ir::Graph& graph, const ir::Node& node) {
  if (!is_pure(*node.op) || node.results.size() != 1 || node.results[0] == ir::kNone || !node.defines.empty()) {
    return std::nullopt;
  }
  if (node.op->inplace_twin.empty()) return std::nullopt;
  const ir::Op* twin = &ops::require(node.op->inplace_twin);
  auto form = twin->is(ir::Trait::kView) ? scatter_form(graph, node, twin) : twin_form(node, twin);
  if (!form || form->target == ir::kNone) return std::nullopt;
  const auto* target = std::get_if<ir::TensorType>(&graph.value(form->target).type);
  const auto* result = std::get_if<ir::TensorType>(&graph.value(node.results[0]).type);
  if (!target || !result || !have_same_elements(*target, *result)) return std::nullopt;
  form->same_strides = target->strides == result->strides;
  if (form->is_scatter && !form->same_strides) return std::nullopt;  // its result becomes the target itself
  // A fresh result has distinct elements, so equal strides prove the same of the target.
  if (!form->same_strides && !ir::has_distinct_elements(*target, graph.symbols)) return std::nullopt;
  return form;
}

bool operands_permit(const MemoryTrace& trace, const ir::Graph& graph, ir::NodeId id, const InPlaceForm& form) {
  const ir::Node& node = graph.node(id);
  bool is_target = true;  // the first occurrence is the target itself
  for (const ir::ValueId operand : ir::operands(node)) {
    if (is_target && operand == form.target) {
      is_target = false;
      continue;
    }
    if (!trace.may_overlap(operand, form.target)) continue;
    if (!node.op->is(ir::Trait::kElementwise) || !trace.aliases().same_view(operand, form.target)) return false;
  }
  return true;
}

bool fails_before_writing(const ir::Op& op) { return aten::index_put_::is(op); }

ir::NodeId write_in_place(ir::Graph& graph, ir::NodeId id, InPlaceForm form, Replacements& replacements) {
  if (!form.is_scatter) {
    graph.value(graph.node(id).results[0]).type = graph.value(form.target).type;
    graph.node(id).op = form.twin;
    graph.node(id).args = std::move(form.args);
    return ir::kNone;
  }
  const ir::ValueId result = graph.node(id).results[0];
  const std::string name = graph.value(result).name;

  const ir::TensorType& type = form.part;
  ir::Node view{.op = form.twin, .args = std::move(form.args), .views = {{form.offset}}};
  view.section = graph.node(id).section;
  view.origin = graph.node(id).origin;
  ir::Node copy = with_defaults(aten::copy_::op());
  copy.section = view.section;
  copy.origin = view.origin;
  const ir::NodeId view_id = graph.insert_before(id, std::move(view), {type}, name + ".part");
  aten::copy_::self.attr(copy) = TensorRef{graph.node(view_id).results[0]};
  aten::copy_::src.attr(copy) = TensorRef{form.source};
  const ir::NodeId copy_id = graph.insert_before(id, std::move(copy), {type}, name + ".write");
  replacements.replace(result, form.target);
  graph.erase(id);
  return copy_id;
}

}  // namespace npugraph::passes
