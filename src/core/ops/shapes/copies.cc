// SPDX-License-Identifier: Apache-2.0
// Copies of views, and copies with rearranged elements.
#include <algorithm>

#include "base/error.h"
#include "ir/bounds.h"
#include "ops/shapes/joined.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"
#include "ops/views/views.h"
#include "tensor/shape.h"

namespace npugraph::ops::shapes {

namespace {

// Whether torch takes elements to overlap, which it recognises only by an expanded dimension. Returns nullopt if
// symbols leave it open.
std::optional<bool> overlaps(const ir::Graph& graph, const ir::TensorType& type) {
  bool open = false;
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    if (!type.strides[i].is_int(0) || ir::is_nonnegative(Expr(1) - type.sizes[i], graph.symbols)) continue;
    if (ir::is_nonnegative(type.sizes[i] - 2, graph.symbols)) return true;
    open = true;
  }
  return open ? std::nullopt : std::optional(false);
}

Types repeated(const Call& call, const ir::TensorType& self, const std::vector<Expr>& repeats) {
  if (repeats.size() < self.sizes.size()) {
    throw UserError(
        npugraph::cat(call.op.name, ": ", repeats.size(), " repeats for a tensor of rank ", self.sizes.size()));
  }
  const size_t added = repeats.size() - self.sizes.size();
  auto sizes = repeats;
  for (size_t i = 0; i < self.sizes.size(); ++i) sizes[added + i] = repeats[added + i] * self.sizes[i];
  return contiguous(self.dtype, std::move(sizes), self.device);
}

// The index, in [0, size), of the element that comes first after a dimension of `size` is rolled by `shift`. Returns
// nullopt if symbols leave it open.
std::optional<Expr> start_of_roll(const Call& call, const Expr& size, int64_t shift) {
  if (const auto known = size.as_int())
    return *known > 0 ? std::optional<Expr>(((-shift % *known) + *known) % *known) : 0;
  if (!ir::is_nonnegative(size - std::abs(shift) - 1, call.graph.symbols)) return std::nullopt;
  return shift > 0 ? size - shift : Expr(-shift);
}

// One dimension is rolled by cutting it in two and joining the pieces in the other order.
std::optional<ir::TensorType> rolled(const Call& call, const ir::TensorType& self, int64_t shift, int64_t dim) {
  const auto start = start_of_roll(call, self.sizes[dim], shift);
  if (!start) return std::nullopt;
  ir::TensorType head = self;
  ir::TensorType tail = self;
  head.sizes[dim] = self.sizes[dim] - *start;
  tail.sizes[dim] = *start;
  return joined(call, {&head, &tail}, dim);
}

// Two different dimensions.
struct Plane {
  int64_t first;
  int64_t second;
};

Plane plane_of(const Call& call, const std::vector<int64_t>& dims, int64_t rank) {
  if (dims.size() != 2) throw UserError(npugraph::cat(call.op.name, ": ", dims.size(), " dimensions, not 2"));
  const Plane plane{normalise_dim(call, dims[0], rank), normalise_dim(call, dims[1], rank)};
  if (plane.first == plane.second) throw UserError(npugraph::cat(call.op.name, ": the dimensions are the same"));
  return plane;
}

}  // namespace

Types parts(const Call& call, ViewRule view) {
  auto places = view(call);
  const auto dtype = views::result_dtype(view, call);
  if (!places || !dtype) return std::nullopt;
  std::vector<ir::Type> types;
  for (ViewResult& place : *places) {
    types.emplace_back(
        ir::TensorType{*dtype, std::move(place.sizes), std::move(place.strides), call.tensor(0)->device});
  }
  return types;
}

Types copies(const Call& call, ViewRule view) {
  auto types = parts(call, view);
  if (!types) return std::nullopt;
  for (ir::Type& type : *types) {
    auto& copy = std::get<ir::TensorType>(type);
    copy.strides = contiguous_strides(copy.sizes);
  }
  return types;
}

Types view_copy(const Call& call) {
  const auto* self = call.tensor(0);
  auto sizes = call.integers(1);
  if (self == nullptr || !sizes) return std::nullopt;
  sizes = views::reshape_sizes(call, *self, std::move(*sizes));
  // Otherwise torch guards on the sizes and then writes them as other expressions.
  if (!sizes || numel(*sizes) != numel(self->sizes)) return std::nullopt;
  return contiguous(self->dtype, std::move(*sizes), self->device);
}

Types same_strides(const Call& call) {
  const auto* self = call.tensor(0);
  const auto overlapping = self != nullptr ? overlaps(call.graph, *self) : std::nullopt;
  if (!overlapping) return std::nullopt;
  return like(*self, self->sizes, *overlapping ? preserved_strides(call, *self) : self->strides);
}

Types slice_inverse(const Call& call) {
  const auto* self = call.tensor(0);
  const auto* base = call.tensor(1);
  if (self == nullptr || base == nullptr) return std::nullopt;
  return like(*self, base->sizes, base->strides);
}

Types suggested_copy(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  return in_suggested_format(call, *self, {self->dtype}, self->sizes);
}

Types roll(const Call& call) {
  const auto* self = call.tensor(0);
  const auto dims = call.known_integers(2);
  const size_t rank = self == nullptr ? 0 : self->sizes.size();
  if (self == nullptr || !dims) return std::nullopt;
  std::vector<int64_t> indices;
  for (const int64_t dim : *dims) indices.push_back(normalise_dim(call, dim, static_cast<int64_t>(rank)));
  // Only images and volumes can be channels last.
  if (dims->empty() || (rank != 4 && rank != 5) || is_contiguous(self->sizes, self->strides)) {
    return contiguous(self->dtype, self->sizes, self->device);
  }
  const auto shifts = call.known_integers(1);
  if (!shifts || shifts->size() != indices.size()) return std::nullopt;
  std::optional<ir::TensorType> result = *self;
  for (size_t i = 0; result && i < indices.size(); ++i) result = rolled(call, *result, (*shifts)[i], indices[i]);
  return only(std::move(result));
}

// A flip keeps the order of the dimensions, and a quarter turn then swaps two of them.
Types rot90(const Call& call) {
  const auto* self = call.tensor(0);
  const auto turns = call.known_integer(1);
  const auto dims = call.known_integers(2);
  if (self == nullptr || !turns || !dims) return std::nullopt;
  const Plane plane = plane_of(call, *dims, static_cast<int64_t>(self->sizes.size()));
  if (*turns % 4 == 0) return contiguous(self->dtype, self->sizes, self->device);
  auto sizes = self->sizes;
  auto strides = preserved_strides(call, *self);
  if (strides && *turns % 2 != 0) {
    std::swap(sizes[plane.first], sizes[plane.second]);
    std::swap((*strides)[plane.first], (*strides)[plane.second]);
  }
  return like(*self, std::move(sizes), std::move(strides));
}

Types repeat(const Call& call) {
  const auto* self = call.tensor(0);
  const auto repeats = call.integers(1);
  if (self == nullptr || !repeats) return std::nullopt;
  return repeated(call, *self, *repeats);
}

Types tile(const Call& call) {
  const auto* self = call.tensor(0);
  auto repeats = call.integers(1);
  if (self == nullptr || !repeats) return std::nullopt;
  if (repeats->size() < self->sizes.size()) {
    repeats->insert(repeats->begin(), self->sizes.size() - repeats->size(), Expr(1));
  }
  return repeated(call, *self, *repeats);
}

Types diag_embed(const Call& call) {
  const auto* self = call.tensor(0);
  const auto offset = call.known_integer(1);
  const auto first = call.known_integer(2);
  const auto second = call.known_integer(3);
  if (self == nullptr || !offset || !first || !second || self->sizes.empty()) return std::nullopt;
  const auto rank = static_cast<int64_t>(self->sizes.size()) + 1;
  const Plane plane = plane_of(call, {*first, *second}, rank);
  auto sizes = self->sizes;
  const Expr length = sizes.back() + std::abs(*offset);
  sizes.pop_back();
  sizes.insert(sizes.begin() + std::min(plane.first, plane.second), length);
  sizes.insert(sizes.begin() + std::max(plane.first, plane.second), length);
  return contiguous(self->dtype, std::move(sizes), self->device);
}

// Operators that return their argument if they can, and a copy otherwise.

namespace {

bool all_known(const std::vector<Expr>& expressions) {
  return std::all_of(expressions.begin(), expressions.end(), [](const Expr& e) { return e.as_int().has_value(); });
}

}  // namespace

Types same(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : like(*self, self->sizes, self->strides);
}

Types contiguous_as_asked(const Call& call) {
  const auto* self = call.tensor(0);
  const auto* format = std::get_if<MemoryFormat>(&call.args[1]);
  if (self == nullptr || format == nullptr) return std::nullopt;
  auto strides = format_strides(self->sizes, *format);
  if (!strides) return std::nullopt;
  // A tensor in this format is returned as it is, including its strides in dimensions of size 1.
  for (size_t i = 0; i < self->sizes.size(); ++i) {
    if (!self->sizes[i].is_int(1) && self->strides[i] != (*strides)[i]) return like(*self, self->sizes, *strides);
  }
  return same(call);
}

Types reshape(const Call& call) {
  const auto* self = call.tensor(0);
  auto sizes = call.integers(1);
  if (self == nullptr || !sizes) return std::nullopt;
  sizes = views::reshape_sizes(call, *self, std::move(*sizes));
  if (!sizes) return std::nullopt;
  if (auto strides = views::reshape_strides(*self, *sizes)) return like(*self, std::move(*sizes), std::move(*strides));
  // Without strides no view is possible, unless symbols hide that one is.
  if (!all_known(*sizes) || !all_known(self->sizes) || !all_known(self->strides)) return std::nullopt;
  return contiguous(self->dtype, std::move(*sizes), self->device);
}

}  // namespace npugraph::ops::shapes
