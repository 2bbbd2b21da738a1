// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"

namespace npugraph::ops::shapes {
namespace {

// The argument with strides of its own, in these types.
Types in_order_of_self(const Call& call, const std::vector<DType>& dtypes) {
  const auto* self = call.tensor(0);
  const auto strides = preserved_strides(call.graph, *self);
  if (!strides) return std::nullopt;
  std::vector<ir::Type> types;
  for (const DType dtype : dtypes) types.emplace_back(ir::TensorType{dtype, self->sizes, *strides, self->device});
  return types;
}

}  // namespace

Types scan(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  const DType dtype = asked_dtype(call, is_integral(self->dtype) ? DType::kI64 : self->dtype);
  return contiguous(dtype, self->sizes, self->device);
}

Types scan_with_index(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  return std::vector<ir::Type>{dense(self->dtype, self->sizes, self->device),
                               dense(DType::kI64, self->sizes, self->device)};
}

Types sort(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : in_order_of_self(call, {self->dtype, DType::kI64});
}

Types argsort(const Call& call) {
  return call.tensor(0) == nullptr ? std::nullopt : in_order_of_self(call, {DType::kI64});
}

Types topk(const Call& call) {
  const auto* self = call.tensor(0);
  const auto count = call.integer(1);
  const auto asked = call.known_integer(2);
  if (self == nullptr || !count || !asked) return std::nullopt;
  auto sizes = self->sizes;
  const auto dim = normalise_dim(call, *asked, static_cast<int64_t>(sizes.size()));
  if (!sizes.empty()) sizes[dim] = *count;
  return std::vector<ir::Type>{dense(self->dtype, sizes, self->device), dense(DType::kI64, sizes, self->device)};
}

}  // namespace npugraph::ops::shapes
