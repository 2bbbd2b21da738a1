// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/shapes/promote.h"
#include "ops/shapes/shapes.h"

namespace npugraph::ops::shapes {

namespace {

// Sizes after the reduction over argument `dim` (one dimension, a list, none or absent: all), kept as 1 with `keepdim`.
std::optional<std::vector<Expr>> reduced_sizes(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  const auto rank = static_cast<int64_t>(self->sizes.size());
  const auto dim = call.find("dim");
  const auto keepdim = call.find("keepdim");
  const bool keep = keepdim && call.boolean(*keepdim).value_or(false);
  std::vector<bool> reduced(std::max<int64_t>(rank, 1), true);
  if (dim && !call.is_none(*dim)) {
    const auto single = call.known_integer(*dim);
    const auto dims = single ? std::vector<int64_t>{*single} : call.known_integers(*dim);
    if (!dims) return std::nullopt;
    // An empty list means all dimensions, except for `any` and `all`.
    const bool is_all = dims->empty() && !call.op.name.starts_with("aten.any") && !call.op.name.starts_with("aten.all");
    reduced.assign(reduced.size(), is_all);
    for (const int64_t d : *dims) reduced[normalise_dim(call, d, rank)] = true;
  }
  std::vector<Expr> sizes;
  for (int64_t i = 0; i < rank; ++i) {
    if (!reduced[i]) sizes.push_back(self->sizes[i]);
    if (reduced[i] && keep) sizes.emplace_back(1);
  }
  return sizes;
}

Types reduced(const Call& call, const std::vector<DType>& dtypes) {
  const auto sizes = reduced_sizes(call);
  return sizes ? row_major(*call.tensor(0), dtypes, sizes) : std::nullopt;
}

// The type of the argument; nullopt if it is integral, because torch then uses its default dtype or raises an error.
std::optional<DType> inexact_self(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr || is_integral(self->dtype) ? std::nullopt : std::optional(self->dtype);
}

}  // namespace

Types sum(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  return reduced(call, {named_or(call, "dtype", is_integral(self->dtype) ? DType::kI64 : self->dtype)});
}

Types mean(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  const DType dtype = named_or(call, "dtype", self->dtype);
  if (is_integral(dtype)) return std::nullopt;
  return reduced(call, {dtype});
}

Types mean_like(const Call& call) {
  const auto dtype = inexact_self(call);
  return dtype ? reduced(call, {*dtype}) : std::nullopt;
}

Types variance(const Call& call) {
  const auto dtype = inexact_self(call);
  return dtype ? reduced(call, {real_of(*dtype)}) : std::nullopt;
}

Types variance_mean(const Call& call) {
  const auto dtype = inexact_self(call);
  return dtype ? reduced(call, {real_of(*dtype), *dtype}) : std::nullopt;
}

Types norm(const Call& call) {
  const auto dtype = inexact_self(call);
  return dtype ? reduced(call, {real_of(named_or(call, "dtype", *dtype))}) : std::nullopt;
}

Types reduce_same(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : reduced(call, {self->dtype});
}

Types reduce_same_pair(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : reduced(call, {self->dtype, self->dtype});
}

Types reduce_with_index(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : reduced(call, {self->dtype, DType::kI64});
}

Types reduce_index(const Call& call) { return reduced(call, {DType::kI64}); }

Types reduce_bool(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  return reduced(call, {self->dtype == DType::kU8 ? DType::kU8 : DType::kBool});
}

Types scan(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  const DType dtype = named_or(call, "dtype", is_integral(self->dtype) ? DType::kI64 : self->dtype);
  return contiguous(dtype, self->sizes, self->device);
}

Types scan_with_index(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : row_major(*self, {self->dtype, DType::kI64}, self->sizes);
}

Types sort(const Call& call) { return both(copied(call, 0), copied(call, 0, DType::kI64)); }

Types argsort(const Call& call) { return only(copied(call, 0, DType::kI64)); }

Types topk(const Call& call) {
  const auto* self = call.tensor(0);
  const auto count = call.integer(1);
  const auto asked = call.known_integer(2);
  if (self == nullptr || !count || !asked) return std::nullopt;
  auto sizes = self->sizes;
  const auto dim = normalise_dim(call, *asked, static_cast<int64_t>(sizes.size()));
  if (!sizes.empty()) sizes[dim] = *count;
  return row_major(*self, {self->dtype, DType::kI64}, sizes);
}

}  // namespace npugraph::ops::shapes
