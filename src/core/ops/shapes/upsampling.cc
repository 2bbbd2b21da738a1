// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "ir/bounds.h"
#include "ops/shapes/shapes.h"

namespace npugraph::ops::shapes {
namespace {

// Scale factors from this one on leave the result's sizes open.
constexpr double kLargestFactor = 1 << 30;

// Only the CPU rearranges pixels and channels in the format that torch suggests for the argument; others: row-major.
Types rearranged(const Call& call, const ir::TensorType& self, std::vector<Expr> sizes) {
  if (runs_on_cpu(self.device)) return in_suggested_format(call, self, {self.dtype}, std::move(sizes));
  return contiguous(self.dtype, std::move(sizes), self.device);
}

Expr floor_divide(const Expr& a, const Expr& b) { return Expr::make(ExprOp::kFloorDiv, {a, b}); }

// Batch and channels of the first argument, with these spatial sizes.
Sizes with_spatial(const Call& call, const Sizes& spatial) {
  const auto* self = call.tensor(0);
  if (self == nullptr || !spatial) return std::nullopt;
  if (self->sizes.size() != spatial->size() + 2) {
    throw UserError(
        npugraph::cat(call.op.name, ": ", spatial->size(), " output sizes for a tensor of rank ", self->sizes.size()));
  }
  std::vector<Expr> sizes{self->sizes[0], self->sizes[1]};
  sizes.insert(sizes.end(), spatial->begin(), spatial->end());
  return sizes;
}

// Spatial sizes of the first argument times the numbers of `scale_factors`, rounded towards zero.
Sizes scaled_sizes(const Call& call, const std::vector<Expr>& factors) {
  const auto* self = call.tensor(0);
  if (self == nullptr || self->sizes.size() != factors.size() + 2) return std::nullopt;
  std::vector<Expr> sizes;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!factors[i].is_constant()) return std::nullopt;
    const double factor = factors[i].value().as_float();
    if (!(factor > 0 && factor < kLargestFactor)) return std::nullopt;
    const Expr& size = self->sizes[i + 2];
    if (factor == static_cast<double>(static_cast<int64_t>(factor))) {
      sizes.push_back(size * Expr(static_cast<int64_t>(factor)));
    } else if (const auto known = size.as_int()) {
      sizes.emplace_back(static_cast<int64_t>(static_cast<double>(*known) * factor));
    } else {
      const Expr product = Expr::make(ExprOp::kMul, {factors[i], Expr::make(ExprOp::kToFloat, {size})});
      sizes.push_back(Expr::make(ExprOp::kTrunc, {product}));
    }
  }
  return sizes;
}

}  // namespace

Types upsample(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt
                         : in_suggested_format(call, *self, {self->dtype}, with_spatial(call, call.integers(1)));
}

Types upsample_scaled(const Call& call) {
  const auto* self = call.tensor(0);
  const auto* factors = std::get_if<std::vector<Expr>>(&call.args[*call.find("scale_factors")]);
  if (self == nullptr || (factors == nullptr) == call.is_none(1)) return std::nullopt;
  return in_suggested_format(call, *self, {self->dtype},
                             with_spatial(call, factors == nullptr ? call.integers(1) : scaled_sizes(call, *factors)));
}

Types upsample_gradient(const Call& call) {
  const auto* grad = call.tensor(0);
  return grad == nullptr ? std::nullopt : in_suggested_format(call, *grad, {grad->dtype}, call.integers(2));
}

Types upsample_bicubic_gradient(const Call& call) {
  const auto* grad = call.tensor(0);
  auto sizes = call.integers(2);
  if (grad == nullptr || !sizes) return std::nullopt;
  return contiguous(grad->dtype, std::move(*sizes), grad->device);
}

Types grid_sampler(const Call& call) {
  const auto* input = call.tensor(0);
  const auto* grid = call.tensor(1);
  if (input == nullptr || grid == nullptr) return std::nullopt;
  if (grid->sizes.size() != input->sizes.size() || grid->sizes.size() < 3) {
    throw UserError(npugraph::cat(call.op.name, ": an input of rank ", input->sizes.size(), " and a grid of rank ",
                                  grid->sizes.size()));
  }
  const std::vector<Expr> places(grid->sizes.begin() + 1, grid->sizes.end() - 1);
  auto sizes = with_spatial(call, places);
  return contiguous(input->dtype, std::move(*sizes), input->device);
}

Types grid_sampler_gradient(const Call& call) {
  const auto* input = call.tensor(1);
  const auto* grid = call.tensor(2);
  if (input == nullptr || grid == nullptr) return std::nullopt;
  // The gradient of the grid is returned even if it is not asked for.
  std::vector<ir::Type> types(1, ir::OpaqueType{});
  if (is_asked_for(call, 0)) types.front() = dense(input->dtype, input->sizes, input->device);
  types.emplace_back(dense(grid->dtype, grid->sizes, grid->device));
  return types;
}

Types affine_grid(const Call& call) {
  const auto* theta = call.tensor(0);
  const auto size = call.integers(1);
  if (theta == nullptr || !size) return std::nullopt;
  if (size->size() != 4 && size->size() != 5) {
    throw UserError(npugraph::cat(call.op.name, ": ", size->size(), " sizes, not 4 or 5"));
  }
  std::vector<Expr> sizes{size->front()};
  sizes.insert(sizes.end(), size->begin() + 2, size->end());
  sizes.emplace_back(static_cast<int64_t>(size->size()) - 2);
  return contiguous(theta->dtype, std::move(sizes), theta->device);
}

Types im2col(const Call& call) {
  const auto* self = call.tensor(0);
  const auto kernel = call.known_integers(1);
  const auto dilation = call.known_integers(2);
  const auto padding = call.known_integers(3);
  const auto stride = call.known_integers(4);
  if (self == nullptr || !kernel || !dilation || !padding || !stride) return std::nullopt;
  const size_t rank = self->sizes.size();
  if (rank != 3 && rank != 4) {
    throw UserError(npugraph::cat(call.op.name, ": a tensor of rank ", rank, ", not 3 or 4"));
  }
  for (const auto* pair : {&*kernel, &*dilation, &*padding, &*stride}) {
    if (pair->size() != 2)
      throw UserError(npugraph::cat(call.op.name, ": ", pair->size(), " numbers for an image, not 2"));
  }
  if ((*stride)[0] < 1 || (*stride)[1] < 1) throw UserError(npugraph::cat(call.op.name, ": stride must be positive"));
  Expr blocks = 1;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t span = (*dilation)[i] * ((*kernel)[i] - 1) + 1;
    blocks = blocks * (floor_divide(self->sizes[rank - 2 + i] + (2 * (*padding)[i] - span), (*stride)[i]) + 1);
  }
  std::vector<Expr> sizes(self->sizes.begin(), self->sizes.end() - 2);
  sizes.back() = sizes.back() * Expr((*kernel)[0] * (*kernel)[1]);
  sizes.push_back(blocks);
  return contiguous(self->dtype, std::move(sizes), self->device);
}

Types col2im(const Call& call) {
  const auto* self = call.tensor(0);
  const auto output = call.integers(1);
  const auto kernel = call.known_integers(2);
  if (self == nullptr || !output || !kernel || kernel->size() != 2 || (*kernel)[0] < 1 || (*kernel)[1] < 1) {
    return std::nullopt;
  }
  const size_t rank = self->sizes.size();
  if (rank != 2 && rank != 3) {
    throw UserError(npugraph::cat(call.op.name, ": a tensor of rank ", rank, ", not 2 or 3"));
  }
  std::vector<Expr> sizes(self->sizes.begin(), self->sizes.end() - 1);
  sizes.back() = floor_divide(sizes.back(), (*kernel)[0] * (*kernel)[1]);
  sizes.insert(sizes.end(), output->begin(), output->end());
  return contiguous(self->dtype, std::move(sizes), self->device);
}

Types pixel_shuffle(const Call& call) {
  const auto* self = call.tensor(0);
  const auto factor = call.known_integer(1);
  if (self == nullptr || !factor || *factor < 1 || self->sizes.size() < 3) return std::nullopt;
  auto sizes = self->sizes;
  const size_t channels = sizes.size() - 3;
  sizes[channels] = floor_divide(sizes[channels], *factor * *factor);
  for (size_t i = channels + 1; i < sizes.size(); ++i) sizes[i] = sizes[i] * Expr(*factor);
  return rearranged(call, *self, std::move(sizes));
}

Types pixel_unshuffle(const Call& call) {
  const auto* self = call.tensor(0);
  const auto factor = call.known_integer(1);
  if (self == nullptr || !factor || *factor < 1 || self->sizes.size() < 3) return std::nullopt;
  auto sizes = self->sizes;
  const size_t channels = sizes.size() - 3;
  sizes[channels] = sizes[channels] * Expr(*factor * *factor);
  for (size_t i = channels + 1; i < sizes.size(); ++i) {
    // FakeTensor's expressions for symbolic sizes here are not simple.
    if (!sizes[i].as_int()) return std::nullopt;
    sizes[i] = floor_divide(sizes[i], *factor);
  }
  // Eager leaves a tensor without elements as it is.
  const auto may_be_empty = [&](const Expr& size) { return !ir::is_nonnegative(size - 1, call.graph.symbols); };
  if (std::any_of(self->sizes.begin(), self->sizes.end(), may_be_empty)) return std::nullopt;
  return rearranged(call, *self, std::move(sizes));
}

Types channel_shuffle(const Call& call) {
  const auto* self = call.tensor(0);
  const auto groups = call.integer(1);
  if (self == nullptr || !groups || groups->is_int(0) || self->sizes.size() < 3) return std::nullopt;
  auto sizes = self->sizes;
  const bool is_empty = std::any_of(sizes.begin(), sizes.end(), [](const Expr& size) { return size.is_int(0); });
  // Equals the number of channels, which the groups divide, but is written as FakeTensor writes it.
  if (!is_empty) sizes[1] = *groups * floor_divide(sizes[1], *groups);
  return rearranged(call, *self, std::move(sizes));
}

}  // namespace npugraph::ops::shapes
