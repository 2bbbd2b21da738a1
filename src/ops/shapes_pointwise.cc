// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "ops/promote.h"
#include "ops/shapes.h"
#include "ops/strides.h"

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

// The broadcast of all tensor arguments, in this dtype.
Types elementwise(const Call& call, std::optional<DType> dtype) {
  std::vector<const ir::TensorType*> operands;
  for (size_t i = 0; i < call.args.size(); ++i) {
    if (!call.op.schema.args[i].type.starts_with("Tensor")) continue;
    if (const auto* tensor = call.tensor(i)) {
      operands.push_back(tensor);
    } else if (std::holds_alternative<TensorRef>(call.args[i])) {
      return std::nullopt;
    }
  }
  if (operands.empty() || !dtype) return std::nullopt;
  auto sizes = broadcast(call.op.name, operands);
  if (!sizes) return std::nullopt;
  auto strides = elementwise_strides(call.graph, *sizes, operands);
  if (!strides) return std::nullopt;
  const auto has_dims = [](const ir::TensorType* type) { return !type->sizes.empty(); };
  const auto first = std::find_if(operands.begin(), operands.end(), has_dims);
  const Device device = (first == operands.end() ? operands.front() : *first)->device;
  return std::vector<ir::Type>{ir::TensorType{*dtype, std::move(*sizes), std::move(*strides), device}};
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
  if (!dtype || is_complex(*dtype)) return std::nullopt;
  return elementwise(call, dtype);
}

Types predicate(const Call& call) { return elementwise(call, DType::kBool); }

Types promote(const Call& call) { return elementwise(call, result_type(call, promoted_args(call))); }

Types promote_float(const Call& call) { return elementwise(call, only_float(result_type(call, promoted_args(call)))); }

Types divide_mode(const Call& call) { return call.is_none(2) ? promote_float(call) : promote(call); }

Types compare(const Call& call) { return elementwise(call, DType::kBool); }

Types select_by_mask(const Call& call) { return elementwise(call, result_type(call, {1, 2})); }

Types masked_fill(const Call& call) {
  const auto* self = call.tensor(0);
  const auto* mask = call.tensor(1);
  if (self == nullptr || mask == nullptr || self->sizes != mask->sizes) return std::nullopt;
  return like_self(call);
}

Types convert(const Call& call) {
  const auto* dtype = std::get_if<DType>(&call.args[1]);
  return dtype == nullptr ? std::nullopt : elementwise(call, *dtype);
}

}  // namespace npugraph::ops::shapes
