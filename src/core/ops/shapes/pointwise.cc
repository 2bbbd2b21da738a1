// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

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

}  // namespace npugraph::ops::shapes
