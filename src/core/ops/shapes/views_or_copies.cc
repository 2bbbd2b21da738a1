// SPDX-License-Identifier: Apache-2.0
// Operators that return their argument if they can, and a copy otherwise.
#include <algorithm>

#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"
#include "ops/views/views.h"

namespace npugraph::ops::shapes {
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
