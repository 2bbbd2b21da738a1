// SPDX-License-Identifier: Apache-2.0
// Losses, gates and their gradients.
#include "base/error.h"
#include "ops/shapes/promote.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"

namespace npugraph::ops::shapes {
namespace {

enum class Losses : uint8_t { kEach, kReduced };

// The meaning of argument `reduction`: 0 is none, 1 the mean, 2 the sum.
std::optional<Losses> losses_of(const Call& call) {
  const auto reduction = call.known_integer(*call.find("reduction"));
  if (!reduction) return std::nullopt;
  if (*reduction < 0 || *reduction > 2) {
    throw UserError(
        npugraph::cat(call.op.name, ": reduction ", *reduction, "; 0 (none), 1 (mean) and 2 (sum) are allowed"));
  }
  return *reduction == 0 ? Losses::kEach : Losses::kReduced;
}

// Losses in the type and layout of argument `i`.
Types loss_like(const Call& call, size_t i) {
  const auto* tensor = call.tensor(i);
  const auto losses = losses_of(call);
  if (tensor == nullptr || !losses || !is_floating(tensor->dtype)) return std::nullopt;
  return *losses == Losses::kEach ? only(copied(call, i)) : contiguous(tensor->dtype, {}, tensor->device);
}

}  // namespace

Types loss(const Call& call) {
  const auto* self = call.tensor(0);
  const auto losses = losses_of(call);
  if (self == nullptr || !losses) return std::nullopt;
  if (*losses == Losses::kEach) return promote(call);
  const auto dtype = result_type(call, {0, 1});
  return dtype && !is_integral(*dtype) ? contiguous(*dtype, {}, self->device) : std::nullopt;
}

Types cross_entropy(const Call& call) { return loss_like(call, 0); }

Types cross_entropy_with_logits(const Call& call) { return loss_like(call, 1); }

Types cross_entropy_backward(const Call& call) { return only(copied(call, 1)); }

Types log_sigmoid_with_buffer(const Call& call) {
  const auto* self = call.tensor(0);
  // Devices differ in what they keep in the buffer.
  if (self == nullptr || self->device.type != "cpu") return std::nullopt;
  auto types = contiguous(self->dtype, self->sizes, self->device);
  types->push_back(types->front());
  return types;
}

Types glu(const Call& call) {
  const auto* self = call.tensor(0);
  const auto dim = call.known_integer(1);
  if (self == nullptr || !dim) return std::nullopt;
  if (self->sizes.empty())
    throw UserError(npugraph::cat(call.op.name, ": a tensor without dimensions cannot be halved"));
  ir::TensorType half = *self;
  Expr& size = half.sizes[normalise_dim(call, *dim, static_cast<int64_t>(half.sizes.size()))];
  if (size.as_int() && *size.as_int() % 2 != 0) {
    throw UserError(npugraph::cat(call.op.name, ": dimension ", *dim, " has the odd size ", size.str()));
  }
  size = Expr::make(ExprOp::kFloorDiv, {size, Expr(2)});
  auto strides = elementwise_strides(call, half.sizes, {&half});
  if (!strides) return std::nullopt;
  half.strides = std::move(*strides);
  return std::vector<ir::Type>{std::move(half)};
}

Types copy_of_last(const Call& call) { return only(copied(call, call.args.size() - 1)); }

}  // namespace npugraph::ops::shapes
