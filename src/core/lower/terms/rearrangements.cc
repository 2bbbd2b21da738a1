// SPDX-License-Identifier: Apache-2.0
// Elements from other places that follow from sizes alone: repetitions, rotations and triangles. Those along the last
// dimension are left to the host, if it has the operator, because it copies whole runs.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lower/terms/rule.h"

namespace npugraph::lower {

using loop::Builder;
using loop::Value;

namespace {

bool is_generated(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  return self != nullptr && is_real_element(self->dtype) && !self->sizes.empty() &&
         tensor_type(graph, node.results.front()) != nullptr;
}

// (self, repeats): the last repeats belong to the dimensions of self.
bool fits_any_repeat(const ir::Graph& graph, const ir::Node& node) {
  const auto* repeats = aten::repeat::repeats(node);
  return is_generated(graph, node) && repeats != nullptr &&
         repeats->size() == graph.value(node.results[0]).tensor().sizes.size();
}
bool fits_repeat(const ir::Graph& graph, const ir::Node& node) {
  return fits_any_repeat(graph, node) &&
         (aten::repeat::repeats(node)->back().is_int(1) || self_type(graph, node)->sizes.back().is_int(1));
}
void write_repeat(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const auto& self = self_type(graph, node)->sizes;
  const std::vector<Expr>& repeats = *aten::repeat::repeats(node);
  std::vector<int> dims;
  std::vector<TermAccess::Index> indices;
  for (size_t d = 0; d < self.size(); ++d) {
    const size_t at = d + repeats.size() - self.size();
    dims.push_back(static_cast<int>(at));
    if (self[d].is_int(1) || repeats[at].is_int(1)) continue;
    w.reads(self[d]);
    indices.push_back({d, w.map({w.place(dims.back())}, 2, [size = self[d]](Builder& b, Values v) {
                         return loop::binary(loop::Op::kFloorMod, v[0], b.index(size));
                       })});
  }
  w.result(node.results[0], w.spread(w.load_indexed(self_of(node), std::move(dims), std::move(indices))));
}

// (self, shifts, dims)
std::optional<std::vector<Expr>> find_shifts(const ir::Graph& graph, const ir::Node& node) {
  const auto* shifts = aten::roll::shifts(node);
  const auto* dims = aten::roll::dims(node);
  if (!is_generated(graph, node) || shifts == nullptr || dims == nullptr || dims->empty() ||
      dims->size() != shifts->size())
    return std::nullopt;
  std::vector<Expr> found(self_type(graph, node)->sizes.size(), Expr(0));
  for (size_t i = 0; i < dims->size(); ++i) {
    const auto dim = dim_of((*dims)[i], found.size());
    if (!dim) return std::nullopt;
    found[*dim] = found[*dim] + (*shifts)[i];
  }
  return found;
}
bool fits_any_roll(const ir::Graph& graph, const ir::Node& node) { return find_shifts(graph, node).has_value(); }
bool fits_roll(const ir::Graph& graph, const ir::Node& node) {
  const auto shifts = find_shifts(graph, node);
  return shifts && shifts->back().is_int(0);
}
void write_roll(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const auto& sizes = self_type(graph, node)->sizes;
  const std::vector<Expr> shifts = *find_shifts(graph, node);
  std::vector<int> dims;
  std::vector<TermAccess::Index> indices;
  for (size_t d = 0; d < sizes.size(); ++d) {
    dims.push_back(static_cast<int>(d));
    if (sizes[d].is_int(0) || sizes[d].is_int(1) || shifts[d].is_int(0)) continue;
    const Expr back = Expr::make(ExprOp::kMod, {shifts[d], sizes[d]});
    w.reads(back);
    w.reads(sizes[d]);
    indices.push_back({d, w.map({w.place(dims.back())}, 2, [back, size = sizes[d]](Builder& b, Values v) {
                         const Value from = v[0] - b.index(back);
                         return loop::select(from < 0.0, from + b.index(size), from);
                       })});
  }
  w.result(node.results[0], w.load_indexed(self_of(node), std::move(dims), std::move(indices)));
}

constexpr RuleRow kRearrangementRules[] = {
    {aten::repeat::kId, {fits_repeat, write_repeat, TermKind::kGather}},
    {aten::roll::kId, {fits_roll, write_roll, TermKind::kGather}},
};

constexpr LoneRuleRow kLoneRearrangementRules[] = {
    {aten::repeat::kId, {fits_any_repeat, write_repeat, space_of_result, no_walk}},
    {aten::roll::kId, {fits_any_roll, write_roll, space_of_result, no_walk}},
};

}  // namespace

std::span<const RuleRow> rearrangement_rules() { return kRearrangementRules; }
std::span<const LoneRuleRow> lone_rearrangement_rules() { return kLoneRearrangementRules; }

// Elements on one side of a diagonal; elsewhere 0.

namespace {

// (self, diagonal), of the last two dimensions.
bool fits_triangle(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  const auto* diagonal = ops::as_number(arg::diagonal(node));
  return self != nullptr && self->sizes.size() >= 2 && is_real_element(self->dtype) &&
         tensor_type(graph, node.results.front()) != nullptr && diagonal != nullptr &&
         diagonal->kind() == ScalarKind::kInt;
}

// The place of the element in a dimension of the tensor. A reduced dimension has one place, wherever the loops are in
// it.
int place_in(TermWriter& w, const std::vector<Expr>& sizes, size_t dim) {
  if (!sizes[dim].is_int(1)) return w.place(static_cast<int>(dim));
  return w.map({}, 0, [](Builder& b, Values) { return b.constant(DType::kI64, 0); });
}

template <bool is_lower>
void write_triangle(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const std::vector<Expr>& sizes = self_type(graph, node)->sizes;
  const size_t rank = sizes.size();
  const Expr diagonal = *ops::as_number(arg::diagonal(node));
  w.reads(diagonal);
  w.result(node.results[0], w.map({w.load(self_of(node)), place_in(w, sizes, rank - 2), place_in(w, sizes, rank - 1)},
                                  3, [diagonal](Builder& b, Values v) {
                                    const Value edge = v[1] + b.index(diagonal);
                                    const Value zero = loop::cast(b.constant(DType::kI64, 0), v[0].dtype());
                                    return loop::select(is_lower ? v[2] <= edge : v[2] >= edge, v[0], zero);
                                  }));
}

constexpr RuleRow kTriangleRules[] = {
    {aten::tril::kId, {fits_triangle, write_triangle<true>, TermKind::kElementwise}},
    {aten::triu::kId, {fits_triangle, write_triangle<false>, TermKind::kElementwise}},
};

}  // namespace

std::span<const RuleRow> triangle_rules() { return kTriangleRules; }

}  // namespace npugraph::lower
