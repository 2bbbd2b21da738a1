// SPDX-License-Identifier: Apache-2.0
// Elements on one side of a diagonal; elsewhere 0.
#include "lower/terms/rule.h"

namespace npugraph::lower {

using loop::Builder;
using loop::Value;

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
