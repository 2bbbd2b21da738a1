// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/error.h"
#include "ops/shapes/promote.h"
#include "ops/shapes/shapes.h"
#include "ops/shapes/strides.h"

namespace npugraph::ops::shapes {

namespace {

// Scalar arguments that take part in type promotion; others (alpha, beta, slopes, ...) follow the type.
constexpr std::array<std::string_view, 5> kPromotedNumbers = {"self", "other", "exponent", "min", "max"};

bool takes_part(const ir::SchemaArg& arg) {
  if (arg.type.starts_with("Tensor")) return true;
  return arg.type.starts_with("Scalar") && !arg.type.starts_with("ScalarType") &&
         std::find(kPromotedNumbers.begin(), kPromotedNumbers.end(), arg.name) != kPromotedNumbers.end();
}

std::vector<size_t> promoted_args(const Call& call) {
  std::vector<size_t> args;
  for (size_t i = 0; i < call.args.size(); ++i) {
    if (takes_part(call.op.schema.args[i])) args.push_back(i);
  }
  return args;
}

// All tensor arguments, their broadcast sizes and their device.
struct Operands {
  std::vector<const ir::TensorType*> tensors;
  std::vector<Expr> sizes;
  Device device;
};

// Returns nullopt if an argument is no strided tensor or symbols leave the sizes open.
std::optional<Operands> operands_of(const Call& call) {
  Operands operands;
  for (size_t i = 0; i < call.args.size(); ++i) {
    if (!call.op.schema.args[i].type.starts_with("Tensor")) continue;
    if (const auto* tensor = call.tensor(i)) {
      operands.tensors.push_back(tensor);
    } else if (std::holds_alternative<TensorRef>(call.args[i])) {
      return std::nullopt;
    }
  }
  const auto& tensors = operands.tensors;
  if (tensors.empty()) return std::nullopt;
  auto sizes = broadcast(call.op.name, tensors);
  if (!sizes) return std::nullopt;
  operands.sizes = std::move(*sizes);
  const auto has_dims = [](const ir::TensorType* type) { return !type->sizes.empty(); };
  const auto first = std::find_if(tensors.begin(), tensors.end(), has_dims);
  operands.device = (first == tensors.end() ? tensors.front() : *first)->device;
  return operands;
}

// The broadcast of all tensor arguments, in this dtype.
Types elementwise(const Call& call, std::optional<DType> dtype) {
  auto operands = operands_of(call);
  if (!operands || !dtype) return std::nullopt;
  auto strides = elementwise_strides(call, operands->sizes, operands->tensors);
  if (!strides) return std::nullopt;
  return std::vector<ir::Type>{
      ir::TensorType{*dtype, std::move(operands->sizes), std::move(*strides), operands->device}};
}

// The same in row-major order, whatever the layouts of the arguments.
Types elementwise_contiguous(const Call& call, std::optional<DType> dtype) {
  auto operands = operands_of(call);
  if (!operands || !dtype) return std::nullopt;
  return contiguous(*dtype, std::move(operands->sizes), operands->device);
}

std::optional<DType> only_float(std::optional<DType> dtype) {
  return dtype && !is_integral(*dtype) ? dtype : std::nullopt;
}

std::optional<DType> self_dtype(const Call& call) {
  const auto* self = call.tensor(0);
  return self == nullptr ? std::nullopt : std::optional(self->dtype);
}

}  // namespace

Types unary(const Call& call) { return elementwise(call, self_dtype(call)); }

Types unary_float(const Call& call) { return elementwise(call, only_float(self_dtype(call))); }

Types absolute(const Call& call) {
  const auto dtype = self_dtype(call);
  return dtype ? elementwise(call, real_of(*dtype)) : std::nullopt;
}

Types angle(const Call& call) {
  const auto dtype = self_dtype(call);
  if (!dtype || is_integral(*dtype)) return std::nullopt;
  return is_complex(*dtype) ? elementwise_contiguous(call, real_of(*dtype)) : elementwise(call, dtype);
}

Types complex_of_parts(const Call& call) {
  const auto dtype = self_dtype(call);
  return dtype ? elementwise(call, complex_of(*dtype)) : std::nullopt;
}

Types mantissa_and_exponent(const Call& call) {
  auto mantissa = unary_float(call);
  if (!mantissa) return std::nullopt;
  auto exponent = std::get<ir::TensorType>(mantissa->front());
  exponent.dtype = DType::kI32;
  mantissa->emplace_back(std::move(exponent));
  return mantissa;
}

Types predicate(const Call& call) { return elementwise(call, DType::kBool); }

Types promote(const Call& call) { return elementwise(call, result_type(call, promoted_args(call))); }

Types promote_contiguous(const Call& call) {
  return elementwise_contiguous(call, result_type(call, promoted_args(call)));
}

Types promote_float_contiguous(const Call& call) {
  return elementwise_contiguous(call, only_float(result_type(call, promoted_args(call))));
}

Types promote_float(const Call& call) { return elementwise(call, only_float(result_type(call, promoted_args(call)))); }

Types divide_mode(const Call& call) { return call.is_none(2) ? promote_float(call) : promote(call); }

Types compare(const Call& call) { return elementwise(call, DType::kBool); }

Types select_by_mask(const Call& call) { return elementwise(call, result_type(call, {1, 2})); }

Types masked_fill(const Call& call) { return elementwise_contiguous(call, self_dtype(call)); }

Types convert(const Call& call) {
  const auto* dtype = std::get_if<DType>(&call.args[1]);
  return dtype == nullptr ? std::nullopt : elementwise(call, *dtype);
}

// Losses, gates and their gradients.

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
