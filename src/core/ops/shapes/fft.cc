// SPDX-License-Identifier: Apache-2.0
// Fourier transforms in the layouts that torch gives them with MKL.
#include <algorithm>

#include "ops/shapes/promote.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"

namespace npugraph::ops::shapes {
namespace {

// `dims` with the largest stride first; equal ones keep their order. Returns nullopt if symbols leave it open.
std::optional<std::vector<size_t>> by_stride(const Call& call, const ir::TensorType& type, std::vector<size_t> dims) {
  for (size_t i = 1; i < dims.size(); ++i) {
    for (size_t at = i; at > 0; --at) {
      const auto order = order_of(type.strides[dims[at - 1]], type.strides[dims[at]], call.graph.symbols);
      if (!order) return std::nullopt;
      if (*order >= 0) break;
      std::swap(dims[at - 1], dims[at]);
    }
  }
  return dims;
}

// The result of one transform over `dims`. In memory they lie inside all other dimensions, in the given order; the
// others keep their order.
std::optional<ir::TensorType> transformed(const Call& call, const ir::TensorType& self, const std::vector<size_t>& dims,
                                          DType dtype, std::vector<Expr> sizes) {
  std::vector<size_t> rest;
  for (size_t i = 0; i < self.sizes.size(); ++i) {
    if (std::find(dims.begin(), dims.end(), i) == dims.end()) rest.push_back(i);
  }
  auto order = by_stride(call, self, rest);
  if (!order) return std::nullopt;
  order->insert(order->end(), dims.begin(), dims.end());
  std::reverse(order->begin(), order->end());
  auto strides = dense_strides(sizes, *order);
  return ir::TensorType{dtype, std::move(sizes), std::move(strides), self.device};
}

std::optional<ir::TensorType> complex_transform(const Call& call, const ir::TensorType& self,
                                                const std::vector<size_t>& dims) {
  const auto sorted = by_stride(call, self, dims);
  return sorted ? transformed(call, self, *sorted, self.dtype, self.sizes) : std::nullopt;
}

// Argument `dim`; nullopt for dimensions that count from the end, which torch's kernels do not take.
std::optional<std::vector<size_t>> dimensions(const Call& call) {
  const auto dims = call.known_integers(*call.find("dim"));
  const auto* self = call.tensor(0);
  if (!dims || self == nullptr) return std::nullopt;
  const auto rank = static_cast<int64_t>(self->sizes.size());
  if (std::any_of(dims->begin(), dims->end(), [](int64_t dim) { return dim < 0; })) return std::nullopt;
  std::vector<size_t> wrapped;
  for (const int64_t dim : *dims) wrapped.push_back(static_cast<size_t>(normalise_dim(call, dim, rank)));
  return wrapped;
}

}  // namespace

Types fft_complex(const Call& call) {
  const auto dims = dimensions(call);
  if (!dims) return std::nullopt;
  return dims->empty() ? clone(call) : only(complex_transform(call, *call.tensor(0), *dims));
}

Types fft_from_real(const Call& call) {
  auto dims = dimensions(call);
  const auto onesided = call.boolean(*call.find("onesided"));
  if (!dims || dims->empty() || !onesided) return std::nullopt;
  const auto& self = *call.tensor(0);
  const auto dtype = complex_of(self.dtype);
  auto sizes = self.sizes;
  Expr& halved = sizes[dims->back()];
  if (*onesided) halved = Expr::make(ExprOp::kFloorDiv, {halved, 2}) + 1;
  auto sorted = by_stride(call, self, {dims->begin(), dims->end() - 1});
  if (!sorted || !dtype) return std::nullopt;
  sorted->push_back(dims->back());
  return only(transformed(call, self, *sorted, *dtype, std::move(sizes)));
}

Types fft_to_real(const Call& call) {
  const auto dims = dimensions(call);
  const auto last_size = call.integer(*call.find("last_dim_size"));
  if (!dims || dims->empty() || !last_size) return std::nullopt;
  std::optional<ir::TensorType> self = *call.tensor(0);
  if (dims->size() > 1) self = complex_transform(call, *self, {dims->begin(), dims->end() - 1});
  if (!self) return std::nullopt;
  auto sizes = self->sizes;
  sizes[dims->back()] = *last_size;
  return only(transformed(call, *self, {dims->back()}, real_of(self->dtype), std::move(sizes)));
}

}  // namespace npugraph::ops::shapes
