// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/alias.h"
#include "ops/shapes/shapes.h"

namespace npugraph::ops::shapes {
namespace {

// Number of elements of `self` that an operator finds: the size that the call defines in dimension `dim` of its first
// result, or 0 if `self` is empty.
std::optional<Expr> found(const Call& call, const ir::TensorType& self, int32_t dim) {
  return ir::is_empty(self) ? Expr(0) : call.defined_size(0, dim);
}

// A dense tensor in whose memory dimension `dim` is the outermost and the others follow in order.
ir::TensorType made_along(DType dtype, std::vector<Expr> sizes, int64_t dim, const Device& device) {
  std::rotate(sizes.begin(), sizes.begin() + dim, sizes.begin() + dim + 1);
  ir::TensorType type = dense(dtype, std::move(sizes), device);
  std::rotate(type.sizes.begin(), type.sizes.begin() + 1, type.sizes.begin() + dim + 1);
  std::rotate(type.strides.begin(), type.strides.begin() + 1, type.strides.begin() + dim + 1);
  return type;
}

}  // namespace

Types nonzero(const Call& call) {
  const auto* self = call.tensor(0);
  const auto count = self == nullptr ? std::nullopt : found(call, *self, 0);
  if (!count) return std::nullopt;
  const auto rank = static_cast<int64_t>(self->sizes.size());
  return std::vector<ir::Type>{ir::TensorType{DType::kI64, {*count, rank}, {1, *count}, self->device}};
}

Types nonzero_static(const Call& call) {
  const auto* self = call.tensor(0);
  const auto size = call.integer(1);
  if (self == nullptr || !size || !runs_on_cpu(self->device)) return std::nullopt;
  return contiguous(DType::kI64, {*size, static_cast<int64_t>(self->sizes.size())}, self->device);
}

Types masked_select(const Call& call) {
  const auto* self = call.tensor(0);
  const auto count = call.defined_size(0, 0);
  return self == nullptr || !count ? std::nullopt : contiguous(self->dtype, {*count}, self->device);
}

Types unique(const Call& call) {
  const auto* self = call.tensor(0);
  const auto count = self == nullptr ? std::nullopt : found(call, *self, 0);
  if (!count) return std::nullopt;
  const std::vector<Expr> none = {0};
  return std::vector<ir::Type>{
      dense(self->dtype, {*count}, self->device),
      dense(DType::kI64, is_set(call, "return_inverse") ? self->sizes : none, self->device),
      dense(DType::kI64, is_set(call, "return_counts") ? std::vector<Expr>{*count} : none, self->device)};
}

Types unique_dim(const Call& call) {
  const size_t arg = *call.find("dim");
  if (call.is_none(arg)) return unique(call);
  const auto* self = call.tensor(0);
  const auto asked = call.known_integer(arg);
  if (self == nullptr || !asked || self->sizes.empty()) return std::nullopt;
  const auto dim = normalise_dim(call, *asked, static_cast<int64_t>(self->sizes.size()));
  const auto count = found(call, *self, static_cast<int32_t>(dim));
  if (!count) return std::nullopt;
  auto sizes = self->sizes;
  sizes[dim] = *count;
  // The CPU also returns the results that it is not asked for.
  const bool always = self->device.type == "cpu";
  const Expr positions = always || is_set(call, "return_inverse") ? self->sizes[dim] : Expr(0);
  const Expr counts = always || is_set(call, "return_counts") ? *count : Expr(0);
  return std::vector<ir::Type>{made_along(self->dtype, std::move(sizes), dim, self->device),
                               dense(DType::kI64, {positions}, self->device),
                               dense(DType::kI64, {counts}, self->device)};
}

Types bincount(const Call& call) {
  const auto* self = call.tensor(0);
  const auto* weights = call.tensor(1);
  const auto size = call.defined_size(0, 0);
  if (self == nullptr || !size) return std::nullopt;
  const DType weighted = weights != nullptr && weights->dtype == DType::kF32 ? DType::kF32 : DType::kF64;
  return contiguous(weights == nullptr ? DType::kI64 : weighted, {*size}, self->device);
}

Types histogram(const Call& call) {
  const auto* self = call.tensor(0);
  const auto bins = call.integer(1);
  return self == nullptr || !bins ? std::nullopt : contiguous(self->dtype, {*bins}, self->device);
}

Types positions(const Call& call) {
  const size_t arg = *call.find("self");
  const auto* self = call.tensor(arg);
  const auto* any = self != nullptr ? self : call.tensor(1 - arg);
  if (any == nullptr || (self == nullptr && std::holds_alternative<TensorRef>(call.args[arg]))) return std::nullopt;
  const DType dtype = is_set(call, "out_int32") ? DType::kI32 : DType::kI64;
  return contiguous(dtype, self == nullptr ? std::vector<Expr>{} : self->sizes, any->device);
}

Types is_in(const Call& call) {
  const auto* elements = call.tensor(0);
  const auto* any = elements != nullptr ? elements : call.tensor(1);
  if (any == nullptr || (elements == nullptr && std::holds_alternative<TensorRef>(call.args[0]))) return std::nullopt;
  return contiguous(DType::kBool, elements == nullptr ? std::vector<Expr>{} : elements->sizes, any->device);
}

Types numbers(const Call& /*call*/) { return std::vector<ir::Type>{}; }

}  // namespace npugraph::ops::shapes
