// SPDX-License-Identifier: Apache-2.0
// Losses of classes, and distances.
#include "base/error.h"
#include "ops/shapes/promote.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"

namespace npugraph::ops::shapes {
namespace {

constexpr int64_t kNoReduction = 0;

void check_rows(const Call& call, const ir::TensorType& type, size_t least) {
  if (type.sizes.size() < least) {
    throw UserError(npugraph::cat(call.op.name, ": a tensor of rank ", type.sizes.size(), ", not of at least ", least));
  }
}

}  // namespace

Types nll_loss(const Call& call) {
  const auto* self = call.tensor(0);
  const auto* target = call.tensor(1);
  const auto reduction = call.known_integer(3);
  if (self == nullptr || target == nullptr || !reduction) return std::nullopt;
  const bool is_reduced = *reduction != kNoReduction || self->sizes.size() < 2;
  return std::vector<ir::Type>{dense(self->dtype, is_reduced ? std::vector<Expr>{} : target->sizes, self->device),
                               dense(self->dtype, {}, self->device)};
}

Types kl_div(const Call& call) {
  const auto* self = call.tensor(0);
  const auto* target = call.tensor(1);
  const auto reduction = call.known_integer(2);
  const auto dtype = result_type(call, {0, 1});
  if (self == nullptr || target == nullptr || !reduction || !dtype || is_integral(*dtype)) return std::nullopt;
  if (*reduction != kNoReduction) return contiguous(*dtype, {}, self->device);
  auto sizes = broadcast(call.op.name, {self, target});
  if (!sizes) return std::nullopt;
  auto strides = elementwise_strides(call, *sizes, {target, self});
  return like({.dtype = *dtype, .device = self->device}, std::move(*sizes), std::move(strides));
}

Types distance(const Call& call) {
  const auto* self = call.tensor(0);
  const auto dtype = result_type(call, {0, 1});
  if (self == nullptr || !dtype || is_integral(*dtype)) return std::nullopt;
  return contiguous(real_of(*dtype), {}, self->device);
}

Types distances(const Call& call) {
  const auto* a = call.tensor(0);
  const auto* b = call.tensor(1);
  if (a == nullptr || b == nullptr) return std::nullopt;
  check_rows(call, *a, 2);
  check_rows(call, *b, 2);
  auto sizes = broadcast_batch(call, a->sizes, b->sizes);
  if (!sizes) return std::nullopt;
  sizes->push_back(*(a->sizes.end() - 2));
  sizes->push_back(*(b->sizes.end() - 2));
  return contiguous(a->dtype, std::move(*sizes), a->device);
}

Types pairwise_distances(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  check_rows(call, *self, 1);
  const Expr rows = self->sizes.front();
  return contiguous(self->dtype, {Expr::make(ExprOp::kFloorDiv, {rows * (rows - Expr(1)), 2})}, self->device);
}

}  // namespace npugraph::ops::shapes
