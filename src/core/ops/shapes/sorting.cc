// SPDX-License-Identifier: Apache-2.0
#include "ops/shapes/shapes.h"

namespace npugraph::ops::shapes {

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
