// SPDX-License-Identifier: Apache-2.0
// Views that keep all elements: other sizes, other order of dimensions, other element types.
#include "tensor/shape.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/shapes/promote.h"
#include "ops/views/views.h"

namespace npugraph::ops::views {
namespace {

Views permuted(const ir::TensorType& base, const std::vector<int64_t>& order) {
  std::vector<Expr> sizes;
  std::vector<Expr> strides;
  for (const int64_t dim : order) {
    sizes.push_back(base.sizes[dim]);
    strides.push_back(base.strides[dim]);
  }
  return one({std::move(sizes), std::move(strides)});
}

std::vector<int64_t> identity(size_t rank) {
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Views swapped(const Call& call, int64_t a, int64_t b) {
  const auto* base = call.tensor(0);
  if (base == nullptr) return std::nullopt;
  if (base->sizes.empty()) return alias(call);
  auto order = identity(base->sizes.size());
  const auto rank = static_cast<int64_t>(order.size());
  std::swap(order[normalise_dim(call, a, rank)], order[normalise_dim(call, b, rank)]);
  return permuted(*base, order);
}

std::vector<Expr> scaled(std::vector<Expr> strides, int64_t factor) {
  for (Expr& stride : strides) stride = stride * Expr(factor);
  return strides;
}

std::optional<Expr> divided(const Expr& e, int64_t divisor) {
  Expr quotient = Expr::make(ExprOp::kFloorDiv, {e, Expr(divisor)});
  if (quotient * Expr(divisor) != e) return std::nullopt;
  return quotient;
}

Views part_of_complex(const Call& call, int64_t offset) {
  const auto* base = call.tensor(0);
  if (base == nullptr || !is_complex(base->dtype)) return std::nullopt;
  return one({base->sizes, scaled(base->strides, 2), offset});
}

}  // namespace

std::optional<std::vector<Expr>> reshape_sizes(const Call& call, const ir::TensorType& base, std::vector<Expr> sizes) {
  const Expr elements = numel(base.sizes);
  const auto open = std::find_if(sizes.begin(), sizes.end(), [](const Expr& size) { return size.is_int(-1); });
  const auto mismatch = [&] {
    return UserError(cat(call.op.name, ": the sizes do not fit ", elements.str(), " elements"));
  };
  if (open == sizes.end()) {
    const Expr difference = numel(sizes) - elements;
    if (difference.as_int() && !difference.is_int(0)) throw mismatch();
    return sizes;
  }
  *open = 1;
  const Expr others = numel(sizes);
  if (others.is_int(0)) return std::nullopt;
  *open = Expr::make(ExprOp::kFloorDiv, {elements, others});
  const Expr difference = *open * others - elements;
  if (difference.is_int(0)) return sizes;
  if (difference.as_int()) throw mismatch();
  return std::nullopt;
}

std::optional<std::vector<Expr>> reshape_strides(const ir::TensorType& base, const std::vector<Expr>& sizes) {
  if (is_contiguous(base.sizes, base.strides)) return contiguous_strides(sizes);
  if (numel(base.sizes).is_int(0)) {
    return base.sizes == sizes ? base.strides : contiguous_strides(sizes);
  }
  if (base.sizes.empty()) return std::vector<Expr>(sizes.size(), 1);
  // From the last dimension on, each run of base dimensions that lie densely in each other is cut into new dimensions.
  std::vector<Expr> strides(sizes.size());
  auto next = static_cast<int64_t>(sizes.size()) - 1;
  Expr run_stride = base.strides.back();
  Expr run_elements = 1;
  Expr cut_elements = 1;
  for (auto dim = static_cast<int64_t>(base.sizes.size()) - 1; dim >= 0; --dim) {
    run_elements = run_elements * base.sizes[dim];
    const bool run_ends =
        dim == 0 || (!base.sizes[dim - 1].is_int(1) && base.strides[dim - 1] != run_elements * run_stride);
    if (!run_ends) continue;
    for (; next >= 0 && (cut_elements != run_elements || sizes[next].is_int(1)); --next) {
      strides[next] = cut_elements * run_stride;
      cut_elements = cut_elements * sizes[next];
    }
    if (cut_elements != run_elements) return std::nullopt;
    if (dim > 0) run_stride = base.strides[dim - 1];
    run_elements = 1;
    cut_elements = 1;
  }
  if (next >= 0) return std::nullopt;
  return strides;
}

Views view(const Call& call) {
  const auto* base = call.tensor(0);
  auto sizes = call.integers(1);
  if (base == nullptr || !sizes) return std::nullopt;
  sizes = reshape_sizes(call, *base, std::move(*sizes));
  if (!sizes) return std::nullopt;
  auto strides = reshape_strides(*base, *sizes);
  if (!strides) return std::nullopt;
  return one({std::move(*sizes), std::move(*strides)});
}

Views view_as(const Call& call) {
  const auto* base = call.tensor(0);
  const auto* other = call.tensor(1);
  if (base == nullptr || other == nullptr) return std::nullopt;
  auto strides = reshape_strides(*base, other->sizes);
  if (!strides) return std::nullopt;
  return one({other->sizes, std::move(*strides)});
}

Views reshape_alias(const Call& call) {
  auto sizes = call.integers(1);
  auto strides = call.integers(2);
  if (!sizes || !strides) return std::nullopt;
  return one({std::move(*sizes), std::move(*strides)});
}

Views alias(const Call& call) {
  const auto* base = call.tensor(0);
  if (base == nullptr) return std::nullopt;
  return one({base->sizes, base->strides});
}

Views t(const Call& call) {
  const auto* base = call.tensor(0);
  if (base == nullptr) return std::nullopt;
  if (base->sizes.size() > 2)
    throw UserError(cat(call.op.name, ": a tensor of rank ", base->sizes.size(), "; at most 2 is allowed"));
  return base->sizes.size() < 2 ? alias(call) : swapped(call, 0, 1);
}

Views transpose(const Call& call) {
  const auto a = call.known_integer(1);
  const auto b = call.known_integer(2);
  if (!a || !b) return std::nullopt;
  return swapped(call, *a, *b);
}

Views transpose_last(const Call& call) { return swapped(call, -2, -1); }

Views reverse_dims(const Call& call) {
  const auto* base = call.tensor(0);
  if (base == nullptr) return std::nullopt;
  auto order = identity(base->sizes.size());
  std::reverse(order.begin(), order.end());
  return permuted(*base, order);
}

Views permute(const Call& call) {
  const auto* base = call.tensor(0);
  auto order = call.known_integers(1);
  if (base == nullptr || !order) return std::nullopt;
  const auto rank = static_cast<int64_t>(base->sizes.size());
  if (static_cast<int64_t>(order->size()) != rank) {
    throw UserError(cat(call.op.name, ": ", order->size(), " dimensions for a tensor of rank ", rank));
  }
  std::vector<bool> seen(order->size(), false);
  for (int64_t& dim : *order) {
    dim = normalise_dim(call, dim, rank);
    if (seen[dim]) throw UserError(cat(call.op.name, ": dimension ", dim, " is named twice"));
    seen[dim] = true;
  }
  return permuted(*base, *order);
}

Views movedim(const Call& call) {
  const auto* base = call.tensor(0);
  if (base == nullptr) return std::nullopt;
  const auto dims = [&](size_t i) {
    const auto single = call.known_integer(i);
    return single ? std::vector<int64_t>{*single} : call.known_integers(i).value_or(std::vector<int64_t>());
  };
  auto from = dims(1);
  auto to = dims(2);
  const auto rank = static_cast<int64_t>(base->sizes.size());
  if (from.size() != to.size() || from.empty() || rank == 0) return std::nullopt;
  std::vector<int64_t> order(rank, -1);
  std::vector<bool> moved(rank, false);
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t source = normalise_dim(call, from[i], rank);
    const int64_t target = normalise_dim(call, to[i], rank);
    if (moved[source] || order[target] >= 0) throw UserError(cat(call.op.name, ": a dimension is named twice"));
    order[target] = source;
    moved[source] = true;
  }
  int64_t next = 0;
  for (int64_t& source : order) {
    if (source >= 0) continue;
    while (moved[next]) ++next;
    source = next++;
  }
  return permuted(*base, order);
}

Views view_dtype(const Call& call) {
  const auto* base = call.tensor(0);
  const auto* dtype = std::get_if<DType>(&call.args[1]);
  if (base == nullptr || dtype == nullptr) return std::nullopt;
  const int64_t from = size_of(base->dtype);
  const int64_t to = size_of(*dtype);
  if (from == to) return alias(call);
  if (base->sizes.empty() || !base->strides.back().is_int(1)) return std::nullopt;
  auto sizes = base->sizes;
  auto strides = base->strides;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool last = i + 1 == sizes.size();
    Expr& changed = last ? sizes[i] : strides[i];
    const auto value = divided(changed * Expr(from), to);
    if (!value) return std::nullopt;
    changed = *value;
  }
  return one({std::move(sizes), std::move(strides)});
}

Views real(const Call& call) { return part_of_complex(call, 0); }

Views imag(const Call& call) { return part_of_complex(call, 1); }

Views view_as_real(const Call& call) {
  auto result = part_of_complex(call, 0);
  if (!result) return std::nullopt;
  result->front().sizes.emplace_back(2);
  result->front().strides.emplace_back(1);
  return result;
}

Views view_as_complex(const Call& call) {
  const auto* base = call.tensor(0);
  if (base == nullptr || base->sizes.empty() || !base->sizes.back().is_int(2) || !base->strides.back().is_int(1))
    return std::nullopt;
  std::vector<Expr> strides;
  for (size_t i = 0; i + 1 < base->strides.size(); ++i) {
    const auto stride = divided(base->strides[i], 2);
    if (!stride) return std::nullopt;
    strides.push_back(*stride);
  }
  return one({{base->sizes.begin(), base->sizes.end() - 1}, std::move(strides)});
}

std::optional<DType> result_dtype(ViewRule rule, const Call& call) {
  const auto* base = call.tensor(0);
  if (base == nullptr) return std::nullopt;
  if (rule == view_dtype) {
    const auto* dtype = std::get_if<DType>(&call.args[1]);
    return dtype == nullptr ? std::nullopt : std::optional(*dtype);
  }
  if (rule == real || rule == imag || rule == view_as_real) return real_of(base->dtype);
  if (rule == view_as_complex) return complex_of(base->dtype);
  return base->dtype;
}

}  // namespace npugraph::ops::views
