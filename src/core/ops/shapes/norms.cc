// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/error.h"
#include "ops/shapes/promote.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"
#include "tensor/shape.h"

namespace npugraph::ops::shapes {

namespace {

const ir::TensorType* tensor_named(const Call& call, std::string_view name) {
  const auto arg = call.find(name);
  return arg ? call.tensor(*arg) : nullptr;
}

// The type of the statistics. On the CPU it is that of the input, or f32 if a parameter has another type. Other devices
// differ in the statistics of half types, for which the type is nullopt.
std::optional<DType> statistics_type(const Call& call, const ir::TensorType& input) {
  if (!runs_on_cpu(input.device)) {
    return compute_type(input.dtype) == input.dtype ? std::optional(input.dtype) : std::nullopt;
  }
  constexpr std::array<std::string_view, 4> kParameters = {"weight", "bias", "running_mean", "running_var"};
  const bool is_mixed = std::any_of(kParameters.begin(), kParameters.end(), [&](std::string_view name) {
    const auto* parameter = tensor_named(call, name);
    return parameter != nullptr && parameter->dtype != input.dtype;
  });
  return is_mixed ? DType::kF32 : input.dtype;
}

ir::Type undefined() { return ir::OpaqueType{}; }

// The gradient of a parameter: row-major, and undefined if the call does not ask for it or there is no parameter.
ir::Type gradient(const Call& call, size_t result, std::string_view parameter, const std::vector<Expr>& sizes) {
  const auto* type = tensor_named(call, parameter);
  if (type == nullptr || !is_asked_for(call, result)) return undefined();
  return dense(type->dtype, sizes, type->device);
}

// The input's sizes with 1 for each normalised dimension.
std::optional<std::vector<Expr>> statistics_sizes(const Call& call, const ir::TensorType& input) {
  const auto shape = call.integers(*call.find("normalized_shape"));
  if (!shape) return std::nullopt;
  if (shape->size() > input.sizes.size()) {
    throw UserError(npugraph::cat(call.op.name, ": normalized_shape has ", shape->size(), " dimensions, the input has ",
                                  input.sizes.size()));
  }
  auto sizes = input.sizes;
  std::fill(sizes.end() - static_cast<int64_t>(shape->size()), sizes.end(), Expr(1));
  return sizes;
}

// Whether arguments N and C are the first sizes of the input, and C is known or there is only one group.
bool has_groups(const Call& call, const ir::TensorType& input) {
  const auto batch = call.integer(*call.find("N"));
  const auto channels = call.integer(*call.find("C"));
  const auto groups = call.integer(*call.find("group"));
  if (!batch || !channels || !groups || input.sizes.size() < 2) return false;
  return input.sizes[0] == *batch && input.sizes[1] == *channels && (channels->as_int() || groups->is_int(1));
}

Types batch_norm(const Call& call, bool training) {
  const auto* input = call.tensor(0);
  if (input == nullptr || input->sizes.size() < 2) return std::nullopt;
  auto output = in_suggested_format(call, *input, {input->dtype}, input->sizes);
  const auto dtype = statistics_type(call, *input);
  if (!output || !dtype) return std::nullopt;
  const Device& device = input->device;
  std::vector<ir::Type> types = std::move(*output);
  types.resize(3, dense(*dtype, {training ? input->sizes[1] : Expr(0)}, device));
  const size_t results = call.op.schema.returns.size();
  if (results == 4 || results == 6) {
    if (!runs_on_cpu(device)) return std::nullopt;  // the backend decides how much it keeps for the backward pass
    types.emplace_back(dense(DType::kU8, {0}, device));
  }
  if (results < 5) return types;
  for (const std::string_view name : {"running_mean", "running_var"}) {
    const auto* running = tensor_named(call, name);
    if (running == nullptr) return std::nullopt;
    types.emplace_back(dense(running->dtype, running->sizes, device));
  }
  return types;
}

}  // namespace

Types softmax(const Call& call) {
  const auto* self = call.tensor(0);
  const auto half_to_float = call.boolean(2);
  if (self == nullptr || !half_to_float) return std::nullopt;
  return contiguous(*half_to_float ? DType::kF32 : self->dtype, self->sizes, self->device);
}

Types softmax_dtype(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr) return std::nullopt;
  const DType dtype = named_or(call, "dtype", self->dtype);
  return is_integral(dtype) ? std::nullopt : contiguous(dtype, self->sizes, self->device);
}

Types softmax_backward(const Call& call) {
  const auto* grad = call.tensor(0);
  const auto* dtype = std::get_if<DType>(&call.args[3]);
  return grad == nullptr || dtype == nullptr ? std::nullopt : contiguous(*dtype, grad->sizes, grad->device);
}

Types layer_norm(const Call& call) {
  const auto* input = call.tensor(0);
  if (input == nullptr) return std::nullopt;
  const auto sizes = statistics_sizes(call, *input);
  const auto dtype = statistics_type(call, *input);
  if (!sizes || !dtype) return std::nullopt;
  std::vector<ir::Type> types{dense(input->dtype, input->sizes, input->device)};
  types.resize(3, dense(*dtype, *sizes, input->device));
  return types;
}

Types layer_norm_backward(const Call& call) {
  const auto* input = call.tensor(1);
  const auto shape = call.integers(2);
  if (input == nullptr || !shape) return std::nullopt;
  return std::vector<ir::Type>{gradient(call, 0, "input", input->sizes), gradient(call, 1, "weight", *shape),
                               gradient(call, 2, "bias", *shape)};
}

Types rms_norm(const Call& call) {
  const auto* input = call.tensor(0);
  if (input == nullptr) return std::nullopt;
  auto output = in_suggested_format(call, *input, {input->dtype}, input->sizes);
  auto sizes = statistics_sizes(call, *input);
  if (!output || !sizes) return std::nullopt;
  return std::vector<ir::Type>{output->front(), dense(compute_type(input->dtype), std::move(*sizes), input->device)};
}

Types rms_norm_backward(const Call& call) {
  const auto* input = call.tensor(1);
  const auto shape = call.integers(2);
  // Devices give row-major gradients. For inputs of other layouts the layout of the gradients is open.
  if (input == nullptr || !shape || !is_contiguous(input->sizes, input->strides)) return std::nullopt;
  return std::vector<ir::Type>{gradient(call, 0, "input", input->sizes), gradient(call, 1, "weight", *shape)};
}

Types group_norm(const Call& call) {
  const auto* input = call.tensor(0);
  if (input == nullptr || !has_groups(call, *input)) return std::nullopt;
  auto output = in_suggested_format(call, *input, {input->dtype}, input->sizes);
  const auto dtype = statistics_type(call, *input);
  if (!output || !dtype) return std::nullopt;
  std::vector<ir::Type> types = std::move(*output);
  types.resize(3, dense(*dtype, {input->sizes[0], *call.integer(*call.find("group"))}, input->device));
  return types;
}

Types group_norm_backward(const Call& call) {
  const auto* input = call.tensor(1);
  // The gradient of a missing parameter has no type.
  const bool has_weight = tensor_named(call, "weight") != nullptr;
  if (input == nullptr || !has_groups(call, *input) ||
      (!has_weight && (is_asked_for(call, 1) || is_asked_for(call, 2)))) {
    return std::nullopt;
  }
  auto output = in_suggested_format(call, *input, {input->dtype}, input->sizes);
  if (!output) return std::nullopt;
  const std::vector<Expr> channels{input->sizes[1]};
  return std::vector<ir::Type>{is_asked_for(call, 0) ? output->front() : undefined(),
                               gradient(call, 1, "weight", channels), gradient(call, 2, "weight", channels)};
}

Types batch_norm(const Call& call) {
  const auto training = call.boolean(*call.find("training"));
  return training ? batch_norm(call, *training) : std::nullopt;
}

Types batch_norm_training(const Call& call) { return batch_norm(call, true); }

Types batch_norm_inference(const Call& call) { return batch_norm(call, false); }

Types batch_norm_backward(const Call& call) {
  const auto* input = call.tensor(1);
  if (input == nullptr || input->sizes.size() < 2) return std::nullopt;
  auto output = in_suggested_format(call, *input, {input->dtype}, input->sizes);
  const auto dtype = statistics_type(call, *input);
  if (!output || !dtype) return std::nullopt;
  const ir::Type parameter = dense(*dtype, {input->sizes[1]}, input->device);
  return std::vector<ir::Type>{is_asked_for(call, 0) ? output->front() : undefined(),
                               is_asked_for(call, 1) ? parameter : undefined(),
                               is_asked_for(call, 2) ? parameter : undefined()};
}

Types weight_norm(const Call& call) {
  const auto* direction = call.tensor(0);
  const auto* length = call.tensor(1);
  if (direction == nullptr || length == nullptr) return std::nullopt;
  return std::vector<ir::Type>{dense(direction->dtype, direction->sizes, direction->device),
                               dense(compute_type(length->dtype), length->sizes, length->device)};
}

// Losses of classes, and distances.

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
