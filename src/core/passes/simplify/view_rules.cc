// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/view_rules.h"

#include <algorithm>

#include "ops/operator_rows.h"
#include "ops/operators.h"
#include "ops/table.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// Longest chain of views that is followed.
constexpr int kMaxChain = 8;

const ir::TensorType* type_of(const ir::Graph& graph, ir::ValueId id) {
  return id != ir::kNone && graph.value(id).is_tensor() ? &graph.value(id).tensor() : nullptr;
}

const ir::TensorType* type_of_self(const ir::Graph& graph, const ir::Node& node) {
  return type_of(graph, ops::as_value(arg::self(node)));
}

int64_t rank_of_self(const ir::Graph& graph, const ir::Node& node) {
  const auto* type = type_of_self(graph, node);
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

// Counts a negative dimension of `rank` dimensions from the front. Returns whether it changed.
bool make_non_negative(Attr& attr, int64_t rank) {
  const auto dim = ops::as_int(attr);
  return dim && *dim < 0 && rank > 0 && assign(attr, Expr(*dim + rank));
}

bool respell_reshape(ir::Graph& graph, ir::Node& node) {
  using aten::view;
  const auto* type = type_of(graph, node.results[0]);
  if (type == nullptr) return false;
  const Expr offset = is_free_view(node) ? node.views[0].offset : Expr(0);
  std::vector<Attr> args = {arg::self(node), type->sizes};
  if ((view::is(node) && node.args == args) || !means_the_same(graph, node, view::op(), args, offset)) return false;
  node.op = &view::op();
  node.args = std::move(args);
  node.views = {{offset}};
  return true;
}

bool respell_transpose(ir::Graph& graph, ir::Node& node) {
  const int64_t rank = rank_of_self(graph, node);
  Attr &dim0 = aten::transpose_int::dim0.attr(node), &dim1 = aten::transpose_int::dim1.attr(node);
  bool changed = make_non_negative(dim0, rank);
  changed = make_non_negative(dim1, rank) || changed;
  const auto first = ops::as_int(dim0);
  const auto second = ops::as_int(dim1);
  if (!first || !second) return changed;
  if (rank == 2 && *first != *second) {
    node.args = {aten::transpose_int::self.attr(node)};
    node.op = &aten::t::op();
    return true;
  }
  if (*first > *second) {
    std::swap(dim0, dim1);
    return true;
  }
  return changed;
}

bool respell_permute(ir::Graph& graph, ir::Node& node) {
  using aten::permute;
  const auto* dims = permute::dims(node);
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
  if (moved.size() != 2) return assign(permute::dims.attr(node), order);
  node.op = &aten::transpose_int::op();
  node.args = {permute::self.attr(node), Expr(moved[0]), Expr(moved[1])};
  respell_transpose(graph, node);
  return true;
}

bool respell_dim(ir::Graph& graph, ir::Node& node) {
  return make_non_negative(arg::dim(node), rank_of_self(graph, node));
}

bool respell_unsqueeze(ir::Graph& graph, ir::Node& node) {
  return make_non_negative(aten::unsqueeze::dim.attr(node), rank_of_self(graph, node) + 1);
}

// Counts known bounds of a slice from the front and clamps them to the dimension.
bool respell_slice(ir::Graph& graph, ir::Node& node) {
  using aten::slice_Tensor;
  bool changed = respell_dim(graph, node);
  const auto* type = type_of_self(graph, node);
  const auto dim = slice_Tensor::dim.as_int(node);
  if (type == nullptr || !dim || *dim >= static_cast<int64_t>(type->sizes.size())) return changed;
  const auto size = type->sizes[*dim].as_int();
  if (!size) return changed;
  const auto clamp = [&](Attr& bound, int64_t missing) {
    const bool is_missing = std::holds_alternative<None>(bound);
    if (!is_missing && !ops::as_int(bound)) return false;
    int64_t value = is_missing ? missing : *ops::as_int(bound);
    if (value < 0) value += *size;
    return assign(bound, Expr(std::clamp<int64_t>(value, 0, *size)));
  };
  changed = clamp(slice_Tensor::start.attr(node), 0) || changed;
  return clamp(slice_Tensor::end.attr(node), *size) || changed;
}

bool respell_select(ir::Graph& graph, ir::Node& node) {
  using aten::select_int;
  const bool changed = respell_dim(graph, node);
  const auto* type = type_of_self(graph, node);
  const auto dim = select_int::dim.as_int(node);
  if (type == nullptr || !dim || *dim >= static_cast<int64_t>(type->sizes.size())) return changed;
  return make_non_negative(select_int::index.attr(node), type->sizes[*dim].as_int().value_or(0)) || changed;
}

using Respell = bool (*)(ir::Graph&, ir::Node&);

constexpr ops::OperatorRow<Respell> kRespellRules[] = {
    {aten::view::kId, respell_reshape},       {aten::_unsafe_view::kId, respell_reshape},
    {aten::reshape::kId, respell_reshape},    {aten::transpose_int::kId, respell_transpose},
    {aten::permute::kId, respell_permute},    {aten::unsqueeze::kId, respell_unsqueeze},
    {aten::squeeze_dim::kId, respell_dim},    {aten::select_int::kId, respell_select},
    {aten::slice_Tensor::kId, respell_slice},
};

}  // namespace

bool respell_view(ir::Graph& graph, ir::Node& node) {
  static const ops::OperatorRows<Respell> rules({kRespellRules});
  const Respell* rule = rules.find(*node.op);
  return rule != nullptr && node.results.size() == 1 && (*rule)(graph, node);
}

bool skip_inner_view(ir::Graph& graph, ir::Node& node) {
  using aten::view;
  if (!view::is(node) || !is_free_view(node)) return false;
  const ir::NodeId def = graph.value(view::self(node)).def;
  if (def == ir::kNone || !view::is(graph.node(def)) || !is_free_view(graph.node(def))) return false;
  const ir::Node& inner = graph.node(def);
  const Expr offset = inner.views[0].offset + node.views[0].offset;
  std::vector<Attr> args = {view::self.attr(inner), view::size.attr(node)};
  if (!means_the_same(graph, node, view::op(), args, offset)) return false;
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
