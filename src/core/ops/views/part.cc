// SPDX-License-Identifier: Apache-2.0
// Views that show a part of the elements, or an element several times.
#include <algorithm>

#include "base/error.h"
#include "ir/alias.h"
#include "ir/bounds.h"
#include "ops/views/views.h"

namespace npugraph::ops::views {
namespace {

bool proven(const Call& call, const Expr& nonnegative) { return ir::is_nonnegative(nonnegative, call.graph.symbols); }

// Whether `e` is at least 0 for all sizes of at least 1. If it is not, torch writes max(0, e).
bool holds_for_any_size(const Call& call, const Expr& e) {
  auto symbols = call.graph.symbols;
  for (auto& symbol : symbols) symbol.min = std::min<int64_t>(symbol.min, 1);
  return ir::is_nonnegative(e, symbols);
}

struct Dimension {
  const ir::TensorType* base;
  int64_t index;
  const Expr& size() const { return base->sizes[index]; }
  const Expr& stride() const { return base->strides[index]; }
};

// The dimension that argument `i` names; nullopt if it is not known, or the tensor has rank 0.
std::optional<Dimension> dimension(const Call& call, size_t i) {
  const auto* base = call.tensor(0);
  const auto dim = call.known_integer(i);
  if (base == nullptr || !dim || base->sizes.empty()) return std::nullopt;
  return Dimension{base, normalise_dim(call, *dim, static_cast<int64_t>(base->sizes.size()))};
}

ViewResult part(const Dimension& dim, Expr size, const Expr& start, const Expr& step = 1) {
  ViewResult result{dim.base->sizes, dim.base->strides, start * dim.stride()};
  result.sizes[dim.index] = std::move(size);
  result.strides[dim.index] = dim.stride() * step;
  return result;
}

ViewResult without(const Dimension& dim, const Expr& index) {
  ViewResult result{dim.base->sizes, dim.base->strides, index * dim.stride()};
  result.sizes.erase(result.sizes.begin() + dim.index);
  result.strides.erase(result.strides.begin() + dim.index);
  return result;
}

// A bound of a slice: counted from the end if negative, then clamped to [0, size]. nullopt if symbols leave it open.
std::optional<Expr> slice_bound(const Call& call, const Expr& bound, const Expr& size) {
  if (bound.is_int(INT64_MAX)) return size;
  Expr at = bound;
  if (!proven(call, bound)) {
    if (!proven(call, Expr(-1) - bound)) return std::nullopt;
    at = bound + size;
    if (proven(call, Expr(0) - at)) return Expr(0);
    if (!proven(call, at)) return std::nullopt;
  }
  if (proven(call, size - at)) return at;
  if (proven(call, at - size)) return size;
  return std::nullopt;
}

// The start of narrow and the index of select: counted from the end when negative.
std::optional<Expr> from_end(const Call& call, const Expr& index, const Expr& size) {
  if (proven(call, index)) return index;
  if (proven(call, Expr(-1) - index)) return index + size;
  return std::nullopt;
}

Views drop_ones(const Call& call, const std::vector<bool>& asked) {
  const auto& base = *call.tensor(0);
  ViewResult result{{}, {}, 0};
  for (size_t i = 0; i < base.sizes.size(); ++i) {
    const bool is_one = base.sizes[i].is_int(1);
    if (asked[i] && is_one) continue;
    // A symbolic size that could be 1 leaves the rank open.
    if (asked[i] && !base.sizes[i].as_int() && !proven(call, base.sizes[i] - 2)) return std::nullopt;
    result.sizes.push_back(base.sizes[i]);
    result.strides.push_back(base.strides[i]);
  }
  return one(std::move(result));
}

Views expanded(const Call& call, const ir::TensorType& base, const std::vector<Expr>& target) {
  const size_t rank = base.sizes.size();
  if (target.size() < rank)
    throw UserError(cat(call.op.name, ": ", target.size(), " sizes for a tensor of rank ", rank));
  ViewResult result{target, std::vector<Expr>(target.size()), 0};
  const size_t added = target.size() - rank;
  for (size_t i = target.size(); i-- > 0;) {
    const Expr size = i >= added ? base.sizes[i - added] : Expr(1);
    Expr stride = 1;
    if (i >= added) {
      stride = base.strides[i - added];
    } else if (i + 1 < target.size()) {
      stride = result.sizes[i + 1] * result.strides[i + 1];
    }
    if (target[i].is_int(-1)) {
      if (i < added) throw UserError(cat(call.op.name, ": a new dimension needs a size, not -1"));
      result.sizes[i] = size;
    }
    result.strides[i] = stride;
    if (size == result.sizes[i]) continue;
    if (!size.is_int(1)) {
      if (!size.as_int() || !result.sizes[i].as_int()) return std::nullopt;
      throw UserError(cat(call.op.name, ": size ", size.str(), " cannot become ", result.sizes[i].str()));
    }
    result.strides[i] = 0;
  }
  return one(std::move(result));
}

Views pieces(const Dimension& dim, const std::vector<Expr>& sizes) {
  std::vector<ViewResult> results;
  Expr start = 0;
  for (const Expr& size : sizes) {
    results.push_back(part(dim, size, start));
    start = start + size;
  }
  return results;
}

// Pieces of `length` elements; the last one may be shorter.
Views pieces_of(const Call& call, const Dimension& dim, int64_t length) {
  const auto size = dim.size().as_int();
  if (!size) return std::nullopt;
  if (length < 0 || (length == 0 && *size != 0)) throw UserError(cat(call.op.name, ": pieces of size ", length));
  const int64_t count = length == 0 ? 1 : std::max<int64_t>((*size + length - 1) / length, 1);
  std::vector<Expr> sizes(count, Expr(length));
  sizes.back() = *size - length * (count - 1);
  return pieces(dim, sizes);
}

}  // namespace

Views expand(const Call& call) {
  const auto* base = call.tensor(0);
  const auto target = call.integers(1);
  if (base == nullptr || !target) return std::nullopt;
  return expanded(call, *base, *target);
}

Views expand_as(const Call& call) {
  const auto* base = call.tensor(0);
  const auto* other = call.tensor(1);
  if (base == nullptr || other == nullptr) return std::nullopt;
  return expanded(call, *base, other->sizes);
}

Views slice(const Call& call) {
  const auto dim = dimension(call, 1);
  const auto step = call.known_integer(4);
  if (!dim || !step) return std::nullopt;
  if (*step <= 0) throw UserError(cat(call.op.name, ": step ", *step, "; it must be positive"));
  const auto start = slice_bound(call, call.integer(2).value_or(0), dim->size());
  const auto end =
      slice_bound(call, call.is_none(3) ? Expr(INT64_MAX) : call.integer(3).value_or(INT64_MAX), dim->size());
  if (!start || !end) return std::nullopt;
  if (proven(call, *start - *end)) return one(part(*dim, 0, *start, *step));
  if (!proven(call, *end - *start)) return std::nullopt;
  return one(part(*dim, Expr::make(ExprOp::kCeilDiv, {*end - *start, Expr(*step)}), *start, *step));
}

Views select(const Call& call) {
  const auto dim = dimension(call, 1);
  const auto index = call.integer(2);
  if (!dim || !index) return std::nullopt;
  const auto at = from_end(call, *index, dim->size());
  if (!at) return std::nullopt;
  if (proven(call, Expr(-1) - *at) || proven(call, *at - dim->size())) {
    throw UserError(cat(call.op.name, ": index ", index->str(), " is out of range for size ", dim->size().str()));
  }
  return one(without(*dim, *at));
}

Views narrow(const Call& call) {
  const auto dim = dimension(call, 1);
  const auto start = call.integer(2);
  const auto length = call.integer(3);
  if (!dim || !start || !length) return std::nullopt;
  const auto at = from_end(call, *start, dim->size());
  if (!at) return std::nullopt;
  return one(part(*dim, *length, *at));
}

Views unsqueeze(const Call& call) {
  const auto* base = call.tensor(0);
  const auto dim = call.known_integer(1);
  if (base == nullptr || !dim) return std::nullopt;
  const auto rank = static_cast<int64_t>(base->sizes.size());
  const int64_t index = normalise_dim(call, *dim, rank + 1);
  ViewResult result{base->sizes, base->strides, 0};
  const Expr stride = index < rank ? base->sizes[index] * base->strides[index] : Expr(1);
  result.sizes.insert(result.sizes.begin() + index, 1);
  result.strides.insert(result.strides.begin() + index, stride);
  return one(std::move(result));
}

Views squeeze(const Call& call) {
  const auto* base = call.tensor(0);
  if (base == nullptr) return std::nullopt;
  return drop_ones(call, std::vector<bool>(base->sizes.size(), true));
}

Views squeeze_dim(const Call& call) {
  const auto* base = call.tensor(0);
  const auto dim = call.known_integer(1);
  if (base == nullptr || !dim) return std::nullopt;
  std::vector<bool> asked(std::max<size_t>(base->sizes.size(), 1), false);
  asked[normalise_dim(call, *dim, static_cast<int64_t>(base->sizes.size()))] = true;
  return drop_ones(call, asked);
}

Views squeeze_dims(const Call& call) {
  const auto* base = call.tensor(0);
  const auto dims = call.known_integers(1);
  if (base == nullptr || !dims) return std::nullopt;
  std::vector<bool> asked(std::max<size_t>(base->sizes.size(), 1), false);
  for (const int64_t dim : *dims) asked[normalise_dim(call, dim, static_cast<int64_t>(base->sizes.size()))] = true;
  return drop_ones(call, asked);
}

Views split(const Call& call) {
  const auto dim = dimension(call, 2);
  const auto length = call.known_integer(1);
  if (!dim || !length) return std::nullopt;
  return pieces_of(call, *dim, *length);
}

Views split_with_sizes(const Call& call) {
  const auto dim = dimension(call, 2);
  const auto sizes = call.integers(1);
  if (!dim || !sizes) return std::nullopt;
  Expr sum = 0;
  for (const Expr& size : *sizes) sum = sum + size;
  const Expr rest = dim->size() - sum;
  if (rest.as_int() && !rest.is_int(0)) {
    throw UserError(cat(call.op.name, ": the sizes add up to ", sum.str(), ", not to ", dim->size().str()));
  }
  return pieces(*dim, *sizes);
}

Views chunk(const Call& call) {
  const auto dim = dimension(call, 2);
  const auto count = call.known_integer(1);
  if (!dim || !count || !dim->size().as_int()) return std::nullopt;
  if (*count <= 0) throw UserError(cat(call.op.name, ": ", *count, " chunks"));
  const int64_t length = (*dim->size().as_int() + *count - 1) / *count;
  if (length == 0) return pieces(*dim, std::vector<Expr>(*count, Expr(0)));
  return pieces_of(call, *dim, length);
}

Views unbind(const Call& call) {
  const auto dim = dimension(call, 1);
  if (!dim || !dim->size().as_int()) return std::nullopt;
  std::vector<ViewResult> results;
  for (int64_t i = 0; i < *dim->size().as_int(); ++i) results.push_back(without(*dim, i));
  return results;
}

Views diagonal(const Call& call) {
  const auto offset = call.known_integer(1);
  const auto rows = dimension(call, 2);
  const auto columns = dimension(call, 3);
  if (!offset || !rows || !columns) return std::nullopt;
  if (rows->index == columns->index) throw UserError(cat(call.op.name, ": the dimensions are the same"));
  const Expr height = rows->size() + std::min<int64_t>(*offset, 0);
  const Expr width = columns->size() - std::max<int64_t>(*offset, 0);
  Expr length;
  if (proven(call, width - height)) {
    length = height;
  } else if (proven(call, height - width)) {
    length = width;
  } else {
    length = Expr::make(ExprOp::kMin, {height, width});
  }
  const bool empty = proven(call, Expr(0) - length);
  if (!empty && !proven(call, length)) return std::nullopt;
  if (!holds_for_any_size(call, length)) length = Expr::make(ExprOp::kMax, {0, length});
  ViewResult result{rows->base->sizes, rows->base->strides, 0};
  if (!empty) result.offset = *offset >= 0 ? Expr(*offset) * columns->stride() : Expr(-*offset) * rows->stride();
  for (const int64_t dim : {std::max(rows->index, columns->index), std::min(rows->index, columns->index)}) {
    result.sizes.erase(result.sizes.begin() + dim);
    result.strides.erase(result.strides.begin() + dim);
  }
  result.sizes.push_back(empty ? Expr(0) : length);
  result.strides.push_back(rows->stride() + columns->stride());
  return one(std::move(result));
}

Views unfold(const Call& call) {
  const auto* base = call.tensor(0);
  const auto dim = dimension(call, 1);
  const auto size = call.known_integer(2);
  const auto step = call.known_integer(3);
  if (base != nullptr && base->sizes.empty() && size && (*size == 0 || *size == 1)) return one({{*size}, {1}, 0});
  if (!dim || !size || !step) return std::nullopt;
  if (*size < 0 || *step <= 0) throw UserError(cat(call.op.name, ": size ", *size, ", step ", *step));
  const Expr room = dim->size() - *size;
  if (!proven(call, room)) return std::nullopt;
  ViewResult result = part(*dim, Expr::make(ExprOp::kFloorDiv, {room, Expr(*step)}) + 1, 0, *step);
  result.sizes.emplace_back(*size);
  result.strides.push_back(dim->stride());
  return one(std::move(result));
}

// torch counts the offset from the start of the storage, which is known only if the memory is a fresh result.
Views as_strided(const Call& call) {
  const auto* base = call.tensor(0);
  auto sizes = call.integers(1);
  auto strides = call.integers(2);
  if (base == nullptr || !sizes || !strides) return std::nullopt;
  if (call.is_none(3)) return one({std::move(*sizes), std::move(*strides), 0});
  const auto offset = call.integer(3);
  const ir::AliasInfo aliases(call.graph);
  const ir::ValueId self = std::get<TensorRef>(call.args[0]).id;
  const auto& place = aliases.placement(self);
  if (!offset || !place.placed || call.graph.value(aliases.root(self)).def == ir::kNone) return std::nullopt;
  const Expr element = size_of(base->dtype);
  const Expr start = Expr::make(ExprOp::kFloorDiv, {place.byte_offset, element});
  if (start * element != place.byte_offset) return std::nullopt;
  return one({std::move(*sizes), std::move(*strides), *offset - start});
}

}  // namespace npugraph::ops::views
