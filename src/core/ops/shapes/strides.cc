// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes/strides.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ir/bounds.h"
#include "tensor/shape.h"

namespace npugraph::ops {
namespace {

// Whether there are no holes and no overlaps: the dimensions of size above 1, in some order, lie densely in each other.
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

// ir::is_nonnegative of `e`, or of `e` after the substitution s = s' + 1 for each symbol of at least 1, which can
// remove negative coefficients: s0*s1 - s0 becomes s0'*s1' + s1'.
bool proven_nonnegative(const Expr& e, const std::vector<ir::Symbol>& symbols) {
  if (ir::is_nonnegative(e, symbols)) return true;
  if (e.is_constant()) return false;
  std::vector<ir::Symbol> smaller = symbols;
  for (ir::Symbol& symbol : smaller) {
    if (symbol.min < 1) continue;
    --symbol.min;
    if (symbol.max != INT64_MAX) --symbol.max;
  }
  const auto shifted = substitute(e, [&](const Expr& symbol) {
    const auto same = [&](const ir::Symbol& s) { return s.name == symbol.symbol_name(); };
    const auto known = std::find_if(symbols.begin(), symbols.end(), same);
    return known == symbols.end() || known->min < 1 ? symbol : symbol + 1;
  });
  return ir::is_nonnegative(shifted, smaller);
}

// Removes the common factors that are at least 1 from both.
void cancel(Expr& a, Expr& b, const std::vector<ir::Symbol>& symbols) {
  const auto factors = [](const Expr& e) {
    const bool is_product = !e.is_constant() && e.op() == ExprOp::kMul;
    return is_product ? std::vector<Expr>(e.args().begin(), e.args().end()) : std::vector<Expr>{e};
  };
  const auto product = [](const std::vector<Expr>& of) {
    return std::accumulate(of.begin(), of.end(), Expr(1), [](const Expr& x, const Expr& y) { return x * y; });
  };
  const auto of_a = factors(a);
  std::vector<Expr> left_in_a;
  std::vector<Expr> left_in_b = factors(b);
  for (const Expr& factor : of_a) {
    const auto same = std::find(left_in_b.begin(), left_in_b.end(), factor);
    if (same == left_in_b.end() || !ir::is_nonnegative(factor - 1, symbols)) {
      left_in_a.push_back(factor);
    } else {
      left_in_b.erase(same);
    }
  }
  a = product(left_in_a);
  b = product(left_in_b);
}

// Orders dimensions from the innermost to the outermost, as TensorIterator does: an insertion sort in which the first
// operand that orders two dimensions decides, and dimensions that no operand orders keep their order.
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
      const auto order = order_of(strides[a], strides[b], symbols_);
      if (!order || *order != 0) return order;
      const auto by_size = order_of(sizes_[a], sizes_[b], symbols_);
      if (!by_size || *by_size > 0) return by_size;
    }
    return 0;
  }

  const std::vector<Expr>& sizes_;
  const std::vector<std::vector<Expr>>& strides_;
  const std::vector<ir::Symbol>& symbols_;
};

// Dimensions from the innermost to the outermost.
std::vector<size_t> channels_last_order(size_t rank) {
  std::vector<size_t> order(rank);
  order[0] = 1;
  for (size_t i = 1; i + 1 < rank; ++i) order[i] = rank - i;
  order[rank - 1] = 0;
  return order;
}

// dense_strides() for dimensions that may turn out to be empty: they count as 1, as in PyTorch.
std::vector<Expr> fresh_strides(const ir::Graph& graph, std::vector<Expr> sizes, const std::vector<size_t>& order) {
  for (Expr& size : sizes) {
    if (!ir::is_nonnegative(size - 1, graph.symbols)) size = Expr::make(ExprOp::kMax, {1, size});
  }
  return dense_strides(sizes, order);
}

// Strides of a fresh tensor if symbols leave the order of its dimensions open.
std::optional<std::vector<Expr>> open_strides(const Call& call, const std::vector<Expr>& sizes) {
  return call.open_strides == OpenStrides::kRowMajor ? std::optional(contiguous_strides(sizes)) : std::nullopt;
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

std::vector<Expr> broadcast_strides(const ir::TensorType& type, const std::vector<Expr>& sizes) {
  std::vector<Expr> strides(sizes.size());
  const size_t added = sizes.size() - type.sizes.size();
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    const bool repeated = type.sizes[i].is_int(1) && !sizes[added + i].is_int(1);
    strides[added + i] = repeated ? Expr(0) : type.strides[i];
  }
  return strides;
}

std::optional<std::vector<Expr>> elementwise_strides(const Call& call, const std::vector<Expr>& sizes,
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
  const auto order = DimensionOrder(sizes, strides, call.graph.symbols).sort();
  return order ? fresh_strides(call.graph, sizes, *order) : open_strides(call, sizes);
}

std::optional<std::vector<Expr>> preserved_strides(const Call& call, const ir::TensorType& type) {
  if (is_dense(type.sizes, type.strides)) return type.strides;
  const std::vector<std::vector<Expr>> strides{type.strides};
  const auto order = DimensionOrder(type.sizes, strides, call.graph.symbols).sort();
  return order ? fresh_strides(call.graph, type.sizes, *order) : open_strides(call, type.sizes);
}

std::optional<std::vector<Expr>> format_strides(const std::vector<Expr>& sizes, MemoryFormat format) {
  if (format == MemoryFormat::kContiguous) return contiguous_strides(sizes);
  const size_t rank = format == MemoryFormat::kChannelsLast ? 4 : 5;
  if (format == MemoryFormat::kPreserve || sizes.size() != rank) return std::nullopt;
  return dense_strides(sizes, channels_last_order(rank));
}

std::optional<MemoryFormat> suggested_format(const Call& call, const std::vector<Expr>& sizes,
                                             const std::vector<Expr>& strides) {
  const size_t rank = sizes.size();
  if ((rank != 4 && rank != 5) || strides == contiguous_strides(sizes)) return MemoryFormat::kContiguous;
  const auto at_least = [&](const Expr& a, const Expr& b) { return proven_nonnegative(a - b, call.graph.symbols); };
  bool open = !at_least(strides[1], 1);
  if (at_least(0, strides[1])) return MemoryFormat::kContiguous;
  // In channels last, strides do not decrease from the channels over the spatial dimensions to the batch. If the extent
  // of a batch item equals the stride of the channels, the format is ambiguous and counts as contiguous.
  Expr extent = 0;
  for (const size_t dim : channels_last_order(rank)) {
    if (at_least(0, sizes[dim]) || at_least(extent - 1, strides[dim])) return MemoryFormat::kContiguous;
    if (dim == 0 && extent == strides[1]) return MemoryFormat::kContiguous;
    open = open || !at_least(sizes[dim], 1) || !at_least(strides[dim], extent);
    open = open || (dim == 0 && !at_least(extent - 1, strides[1]) && !at_least(strides[1] - 1, extent));
    extent = strides[dim] * sizes[dim];
  }
  if (open)
    return call.open_strides == OpenStrides::kRowMajor ? std::optional(MemoryFormat::kContiguous) : std::nullopt;
  return rank == 4 ? MemoryFormat::kChannelsLast : MemoryFormat::kChannelsLast3d;
}

std::optional<std::vector<Expr>> suggested_strides(const Call& call, const ir::TensorType& type,
                                                   const std::vector<Expr>& sizes) {
  const auto format = suggested_format(call, type.sizes, type.strides);
  return format ? format_strides(sizes, *format) : std::nullopt;
}

std::vector<Expr> dense_strides(const std::vector<Expr>& sizes, const std::vector<size_t>& order) {
  std::vector<Expr> strides(sizes.size());
  Expr next = 1;
  for (const size_t dim : order) {
    strides[dim] = next;
    if (!sizes[dim].is_int(0)) next = next * sizes[dim];
  }
  return strides;
}

std::optional<int> order_of(Expr a, Expr b, const std::vector<ir::Symbol>& symbols) {
  if (a == b) return 0;
  cancel(a, b, symbols);
  const Expr difference = a - b;
  if (proven_nonnegative(difference - 1, symbols)) return 1;
  if (proven_nonnegative(Expr(-1) - difference, symbols)) return -1;
  return std::nullopt;
}

}  // namespace npugraph::ops
