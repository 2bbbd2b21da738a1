// SPDX-License-Identifier: Apache-2.0
#include "ops/strides.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ir/bounds.h"
#include "tensor/shape.h"

namespace npugraph::ops {
namespace {

// Without holes and overlaps: the dimensions of size above 1, in some order, lie densely in each other.
bool is_dense(const std::vector<Expr>& sizes, const std::vector<Expr>& strides) {
  std::vector<bool> placed(sizes.size(), false);
  size_t left = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    placed[i] = sizes[i].is_int(1);
    if (!placed[i]) ++left;
  }
  Expr expected = 1;
  for (; left > 0; --left) {
    size_t next = 0;
    while (next < sizes.size() && (placed[next] || strides[next] != expected)) ++next;
    if (next == sizes.size()) return false;
    placed[next] = true;
    expected = expected * sizes[next];
  }
  return true;
}

// -1, 0 or 1; nothing when symbols leave the order open.
std::optional<int> compare(const Expr& a, const Expr& b, const std::vector<ir::Symbol>& symbols) {
  if (a == b) return 0;
  const Expr difference = a - b;
  if (ir::is_nonnegative(difference - 1, symbols)) return 1;
  if (ir::is_nonnegative(Expr(-1) - difference, symbols)) return -1;
  return std::nullopt;
}

// Orders dimensions from the innermost to the outermost, as TensorIterator does: an insertion sort in which the first operand
// with an opinion on two dimensions decides, and dimensions without any keep their order.
class DimensionOrder {
 public:
  // `strides` are those of the operands, broadcast to `sizes` (0 where broadcast).
  DimensionOrder(const std::vector<Expr>& sizes, const std::vector<std::vector<Expr>>& strides,
                 const std::vector<ir::Symbol>& symbols)
      : sizes_(sizes), strides_(strides), symbols_(symbols) {}

  std::optional<std::vector<size_t>> sort() const {
    std::vector<size_t> order(sizes_.size());
    std::iota(order.rbegin(), order.rend(), 0);
    for (size_t i = 1; i < order.size(); ++i) {
      size_t moving = i;
      for (size_t before = i; before-- > 0;) {
        const auto comparison = compare_dims(order[before], order[moving]);
        if (!comparison) return std::nullopt;
        if (*comparison < 0) break;
        if (*comparison == 0) continue;
        std::swap(order[before], order[moving]);
        moving = before;
      }
    }
    return order;
  }

 private:
  std::optional<int> compare_dims(size_t a, size_t b) const {
    for (const auto& strides : strides_) {
      if (strides[a].is_int(0) || strides[b].is_int(0)) continue;
      const auto order = compare(strides[a], strides[b], symbols_);
      if (!order || *order != 0) return order;
      const auto by_size = compare(sizes_[a], sizes_[b], symbols_);
      if (!by_size || *by_size > 0) return by_size;
    }
    return 0;
  }

  const std::vector<Expr>& sizes_;
  const std::vector<std::vector<Expr>>& strides_;
  const std::vector<ir::Symbol>& symbols_;
};

std::vector<Expr> strides_in_order(const std::vector<Expr>& sizes, const std::vector<size_t>& order) {
  std::vector<Expr> strides(sizes.size());
  Expr next = 1;
  for (const size_t dim : order) {
    strides[dim] = next;
    if (!sizes[dim].is_int(0)) next = next * sizes[dim];
  }
  return strides;
}

std::vector<Expr> broadcast_strides(const ir::TensorType& type, const std::vector<Expr>& sizes) {
  std::vector<Expr> strides(sizes.size());
  const size_t added = sizes.size() - type.sizes.size();
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    const bool repeated = type.sizes[i].is_int(1) && !sizes[added + i].is_int(1);
    strides[added + i] = repeated ? Expr(0) : type.strides[i];
  }
  return strides;
}

}  // namespace

std::optional<std::vector<Expr>> broadcast(std::string_view name, const std::vector<const ir::TensorType*>& operands) {
  size_t rank = 0;
  for (const auto* operand : operands) rank = std::max(rank, operand->sizes.size());
  std::vector<Expr> sizes(rank, 1);
  for (const auto* operand : operands) {
    for (size_t i = 0; i < operand->sizes.size(); ++i) {
      Expr& size = sizes[rank - operand->sizes.size() + i];
      const Expr& other = operand->sizes[i];
      if (other == size || other.is_int(1)) continue;
      if (size.is_int(1)) {
        size = other;
        continue;
      }
      if ((size - other).as_int()) {
        throw UserError(cat(name, ": sizes ", size.str(), " and ", other.str(), " cannot be broadcast together"));
      }
      return std::nullopt;
    }
  }
  return sizes;
}

std::optional<std::vector<Expr>> elementwise_strides(const ir::Graph& graph, const std::vector<Expr>& sizes,
                                                     const std::vector<const ir::TensorType*>& operands) {
  const auto same_sizes = [&](const ir::TensorType* type) { return type->sizes == sizes; };
  if (std::all_of(operands.begin(), operands.end(), same_sizes)) {
    const auto contiguous = [](const ir::TensorType* type) { return is_contiguous(type->sizes, type->strides); };
    const auto same_strides = [&](const ir::TensorType* type) { return type->strides == operands.front()->strides; };
    if (std::all_of(operands.begin(), operands.end(), contiguous)) return contiguous_strides(sizes);
    if (std::all_of(operands.begin(), operands.end(), same_strides) && is_dense(sizes, operands.front()->strides)) {
      return operands.front()->strides;
    }
  }
  std::vector<std::vector<Expr>> strides;
  for (const auto* operand : operands) strides.push_back(broadcast_strides(*operand, sizes));
  const auto order = DimensionOrder(sizes, strides, graph.symbols).sort();
  if (!order) return std::nullopt;
  return strides_in_order(sizes, *order);
}

std::optional<std::vector<Expr>> preserved_strides(const ir::Graph& graph, const ir::TensorType& type) {
  if (is_dense(type.sizes, type.strides)) return type.strides;
  const std::vector<std::vector<Expr>> strides{type.strides};
  const auto order = DimensionOrder(type.sizes, strides, graph.symbols).sort();
  if (!order) return std::nullopt;
  return strides_in_order(type.sizes, *order);
}

std::optional<std::vector<Expr>> format_strides(const std::vector<Expr>& sizes, MemoryFormat format) {
  if (format == MemoryFormat::kContiguous) return contiguous_strides(sizes);
  const size_t rank = format == MemoryFormat::kChannelsLast ? 4 : 5;
  if (format == MemoryFormat::kPreserve || sizes.size() != rank) return std::nullopt;
  std::vector<size_t> order(rank);
  order[0] = 1;
  for (size_t i = 1; i + 1 < rank; ++i) order[i] = rank - i;
  order[rank - 1] = 0;
  return strides_in_order(sizes, order);
}

}  // namespace npugraph::ops
