// SPDX-License-Identifier: Apache-2.0
#include "passes/view_rules.h"

#include <algorithm>
#include <unordered_map>

#include "ops/table.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// Chains of views longer than this are not looked through.
constexpr int kMaxChain = 8;

const ir::TensorType* type_of(const ir::Graph& graph, ir::ValueId id) {
  return id != ir::kNone && graph.value(id).is_tensor() ? &graph.value(id).tensor() : nullptr;
}

int64_t rank_of_self(const ir::Graph& graph, const ir::Node& node) {
  const auto* type = type_of(graph, as_value(node.args[0]));
  return type ? static_cast<int64_t>(type->sizes.size()) : -1;
}

// Whether `op` with `args` places its one result exactly where `node` has it.
bool means_the_same(const ir::Graph& graph, const ir::Node& node, const ir::Op& op, const std::vector<Attr>& args,
                    const Expr& offset) {
  const auto* type = type_of(graph, node.results[0]);
  const auto places = ops::infer_views(graph, op, args);
  if (type == nullptr || !places || places->size() != 1) return false;
  const auto& place = places->front();
  return place.sizes == type->sizes && place.strides == type->strides && place.offset == offset;
}

bool assign(Attr& attr, Attr value) {
  if (attr == value) return false;
  attr = std::move(value);
  return true;
}

// A dimension of `rank` dimensions counted from the front.
bool make_non_negative(Attr& attr, int64_t rank) {
  const auto dim = as_int(attr);
  return dim && *dim < 0 && rank > 0 && assign(attr, Expr(*dim + rank));
}

bool respell_reshape(ir::Graph& graph, ir::Node& node) {
  static const ir::Op* kView = row("aten.view");
  const auto* type = type_of(graph, node.results[0]);
  if (type == nullptr) return false;
  const Expr offset = is_free_view(node) ? node.views[0].offset : Expr(0);
  std::vector<Attr> args = {node.args[0], type->sizes};
  if ((node.op == kView && node.args == args) || !means_the_same(graph, node, *kView, args, offset)) return false;
  node.op = kView;
  node.args = std::move(args);
  node.views = {{offset}};
  return true;
}

bool respell_transpose(ir::Graph& graph, ir::Node& node) {
  static const ir::Op* kT = row("aten.t");
  const int64_t rank = rank_of_self(graph, node);
  bool changed = make_non_negative(node.args[1], rank);
  changed = make_non_negative(node.args[2], rank) || changed;
  const auto first = as_int(node.args[1]);
  const auto second = as_int(node.args[2]);
  if (!first || !second) return changed;
  if (rank == 2 && *first != *second) {
    node.op = kT;
    node.args.resize(1);
    return true;
  }
  if (*first > *second) {
    std::swap(node.args[1], node.args[2]);
    return true;
  }
  return changed;
}

bool respell_permute(ir::Graph& graph, ir::Node& node) {
  static const ir::Op* kTranspose = row("aten.transpose.int");
  const auto* dims = as_ints(node.args[1]);
  const int64_t rank = rank_of_self(graph, node);
  if (dims == nullptr || static_cast<int64_t>(dims->size()) != rank) return false;
  std::vector<Expr> order = *dims;
  std::vector<int64_t> moved;
  for (int64_t i = 0; i < rank; ++i) {
    const auto dim = order[i].as_int();
    if (!dim) return false;
    if (*dim < 0) order[i] = *dim + rank;
    if (!order[i].is_int(i)) moved.push_back(i);
  }
  if (moved.size() != 2) return assign(node.args[1], order);
  node.op = kTranspose;
  node.args = {node.args[0], Expr(moved[0]), Expr(moved[1])};
  respell_transpose(graph, node);
  return true;
}

bool respell_dim(ir::Graph& graph, ir::Node& node) {
  return make_non_negative(node.args[1], rank_of_self(graph, node));
}

bool respell_unsqueeze(ir::Graph& graph, ir::Node& node) {
  return make_non_negative(node.args[1], rank_of_self(graph, node) + 1);
}

// Known bounds of a slice, counted from the front and clamped to the dimension.
bool respell_slice(ir::Graph& graph, ir::Node& node) {
  bool changed = respell_dim(graph, node);
  const auto* type = type_of(graph, as_value(node.args[0]));
  const auto dim = as_int(node.args[1]);
  if (type == nullptr || !dim || *dim >= static_cast<int64_t>(type->sizes.size())) return changed;
  const auto size = type->sizes[*dim].as_int();
  if (!size) return changed;
  const auto clamp = [&](Attr& bound, int64_t missing) {
    const bool is_missing = std::holds_alternative<None>(bound);
    if (!is_missing && !as_int(bound)) return false;
    int64_t value = is_missing ? missing : *as_int(bound);
    if (value < 0) value += *size;
    return assign(bound, Expr(std::clamp<int64_t>(value, 0, *size)));
  };
  changed = clamp(node.args[2], 0) || changed;
  return clamp(node.args[3], *size) || changed;
}

bool respell_select(ir::Graph& graph, ir::Node& node) {
  const bool changed = respell_dim(graph, node);
  const auto* type = type_of(graph, as_value(node.args[0]));
  const auto dim = as_int(node.args[1]);
  if (type == nullptr || !dim || *dim >= static_cast<int64_t>(type->sizes.size())) return changed;
  return make_non_negative(node.args[2], type->sizes[*dim].as_int().value_or(0)) || changed;
}

using Rule = bool (*)(ir::Graph&, ir::Node&);

const std::unordered_map<const ir::Op*, Rule>& rules() {
  static const std::unordered_map<const ir::Op*, Rule> rules = {
      {row("aten.view"), respell_reshape},       {row("aten._unsafe_view"), respell_reshape},
      {row("aten.reshape"), respell_reshape},    {row("aten.transpose.int"), respell_transpose},
      {row("aten.permute"), respell_permute},    {row("aten.unsqueeze"), respell_unsqueeze},
      {row("aten.squeeze.dim"), respell_dim},    {row("aten.select.int"), respell_select},
      {row("aten.slice.Tensor"), respell_slice},
  };
  return rules;
}

}  // namespace

bool respell_view(ir::Graph& graph, ir::Node& node) {
  const auto rule = rules().find(node.op);
  return rule != rules().end() && node.results.size() == 1 && rule->second(graph, node);
}

bool skip_inner_view(ir::Graph& graph, ir::Node& node) {
  static const ir::Op* kView = row("aten.view");
  if (node.op != kView || !is_free_view(node)) return false;
  const ir::NodeId def = graph.value(as_value(node.args[0])).def;
  if (def == ir::kNone || graph.node(def).op != kView || !is_free_view(graph.node(def))) return false;
  const ir::Node& inner = graph.node(def);
  const Expr offset = inner.views[0].offset + node.views[0].offset;
  std::vector<Attr> args = {inner.args[0], node.args[1]};
  if (!means_the_same(graph, node, *kView, args, offset)) return false;
  node.args = std::move(args);
  node.views = {{offset}};
  return true;
}

ir::ValueId find_same_view(const ir::Graph& graph, const ir::Node& node) {
  if (!is_free_view(node) || node.results.size() != 1) return ir::kNone;
  const auto* type = type_of(graph, node.results[0]);
  if (type == nullptr) return ir::kNone;
  Expr offset;
  const ir::Node* view = &node;
  for (int step = 0; step < kMaxChain; ++step) {
    const ir::ValueId base = ir::operands(*view).front();
    const auto* base_type = type_of(graph, base);
    // Offsets of different element sizes do not add up.
    if (base_type == nullptr || base_type->dtype != type->dtype) return ir::kNone;
    offset = offset + view->views[0].offset;
    if (offset.is_int(0) && *base_type == *type) return base;
    const ir::NodeId def = graph.value(base).def;
    if (def == ir::kNone || !is_free_view(graph.node(def)) || graph.node(def).results.size() != 1) return ir::kNone;
    view = &graph.node(def);
  }
  return ir::kNone;
}

}  // namespace npugraph::passes
