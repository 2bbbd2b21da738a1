// SPDX-License-Identifier: Apache-2.0
#include "lower/nest_layout.h"

#include "ir/graph.h"

namespace npugraph::lower {
namespace {

void append(Layout& layout, const Expr& size, const std::vector<std::vector<Expr>>& strides, size_t d) {
  layout.sizes.push_back(size);
  for (size_t v = 0; v < strides.size(); ++v) layout.strides[v].push_back(strides[v][d]);
}

void append_one(Layout& layout) {
  layout.sizes.emplace_back(1);
  for (auto& of_access : layout.strides) of_access.emplace_back(0);
}

bool continues(const Layout& layout, const Expr& size, const std::vector<std::vector<Expr>>& strides, size_t d) {
  for (size_t v = 0; v < strides.size(); ++v) {
    if (!(layout.strides[v].back() == strides[v][d] * size)) return false;
  }
  return true;
}

}  // namespace

Expr product(const std::vector<Expr>& sizes, size_t begin, size_t end) {
  Expr out = 1;
  for (size_t d = begin; d < end; ++d) out = out * sizes[d];
  return out;
}

Expr ceil_div(const Expr& a, const Expr& b) { return Expr::make(ExprOp::kCeilDiv, {a, b}); }

Layout collapse(const LayoutRequest& request) {
  const auto& [space, strides, stay, row_rank, by_columns] = request;
  Layout layout{.strides = std::vector<std::vector<Expr>>(strides.size())};
  const size_t row = space.size() - row_rank;
  bool can_merge = false;
  for (size_t d = 0; d <= space.size(); ++d) {
    if (d == row && row_rank > 0) {
      if (by_columns && layout.sizes.empty()) append_one(layout);
      layout.row = layout.sizes.size();
      can_merge = false;
    }
    if (d == space.size()) break;
    layout.place.push_back(ir::kNone);
    if (space[d].is_int(1) && !stay[d]) continue;
    if (can_merge && !stay[d] && continues(layout, space[d], strides, d)) {
      layout.sizes.back() = layout.sizes.back() * space[d];
      for (size_t v = 0; v < strides.size(); ++v) layout.strides[v].back() = strides[v][d];
    } else {
      append(layout, space[d], strides, d);
    }
    can_merge = !stay[d];
    layout.place.back() = static_cast<int>(layout.sizes.size()) - 1;
  }
  if (layout.sizes.size() == layout.row) append_one(layout);
  if (row_rank == 0) layout.row = layout.sizes.size() - 1;
  return layout;
}

}  // namespace npugraph::lower
