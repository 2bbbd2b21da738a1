// SPDX-License-Identifier: Apache-2.0
#include "lower/nest/layout.h"

#include <algorithm>
#include <numeric>

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
    if (!is_step_over(layout.strides[v].back(), size, strides[v][d])) return false;
  }
  return true;
}

// Whether each iteration of dimension `d` reads the same elements again, and they are too many for the cache.
bool is_large_broadcast(const Layout& layout, const std::vector<Expr>& strides, size_t d) {
  constexpr int64_t kElementsInCache = 1 << 18;
  if (!strides[d].is_int(0)) return false;
  Expr inside = 1;
  for (size_t e = d + 1; e < strides.size(); ++e) {
    if (!strides[e].is_int(0)) inside = inside * layout.sizes[e];
  }
  return inside.as_int().value_or(0) > kElementsInCache;
}

template <typename T>
void reorder(std::vector<T>& items, const std::vector<size_t>& order) {
  std::vector<T> out = items;
  for (size_t d = 0; d < order.size(); ++d) out[d] = items[order[d]];
  items = std::move(out);
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

void put_reused_inside(Layout& layout) {
  const auto is_reused = [&](size_t d) {
    return std::any_of(layout.strides.begin(), layout.strides.end(),
                       [&](const auto& strides) { return is_large_broadcast(layout, strides, d); });
  };
  std::vector<size_t> order(layout.row);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto reused = std::stable_partition(order.begin(), order.end(), [&](size_t d) { return !is_reused(d); });
  layout.reused = static_cast<size_t>(order.end() - reused);
  reorder(layout.sizes, order);
  for (auto& strides : layout.strides) reorder(strides, order);
  for (int& place : layout.place) {
    if (place == ir::kNone || place >= static_cast<int>(layout.row)) continue;
    place = static_cast<int>(std::find(order.begin(), order.end(), static_cast<size_t>(place)) - order.begin());
  }
}

}  // namespace npugraph::lower
