// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/quantised.h"

#include <limits>

namespace npugraph::npu_ops {
namespace {

double largest_of(at::ScalarType type) {
  switch (type) {
    case at::kQUInt4x2: return 7;
    case at::kChar: return std::numeric_limits<int8_t>::max();
    case at::kInt: return std::numeric_limits<int32_t>::max();
    case at::kFloat8_e4m3fn: return static_cast<float>(std::numeric_limits<at::Float8_e4m3fn>::max());
    case at::kFloat8_e5m2: return static_cast<float>(std::numeric_limits<at::Float8_e5m2>::max());
    default: TORCH_INTERNAL_ASSERT(false, type);
  }
}

// Of integers in [-8, 7].
Tensor packed_in_eights(const Tensor& values) {
  TORCH_CHECK(values.sym_size(-1) % 8 == 0, "rows of ", values.sym_size(-1),
              " values of 4 bits do not fill whole elements of int32");
  const Tensor nibbles = values.to(at::kInt).bitwise_and(15).unflatten(-1, {-1, 8});
  return nibbles.bitwise_left_shift(at::arange(0, 32, 4, nibbles.options())).sum(-1).to(at::kInt);
}

}  // namespace

at::ScalarType storage_type(at::ScalarType type) { return type == at::kQUInt4x2 ? at::kInt : type; }

at::ScalarType quantised_type(const char* op, const char* name, std::optional<int64_t> code) {
  const at::ScalarType type = type_of_code(op, name, code, at::kChar);
  if (type == at::kChar || type == at::kQInt8) return at::kChar;
  TORCH_CHECK(type == at::kQUInt4x2 || type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2, op, ": ", name, " is ",
              type, ", allowed are int8, int4, quint4x2, float8_e4m3fn and float8_e5m2");
  return type;
}

Tensor saturated(const Tensor& exact, at::ScalarType type) {
  const double largest = largest_of(type);
  if (at::isFloatingType(type)) return exact.clamp(-largest, largest).to(type);
  const Tensor integers = exact.round().clamp(-largest - 1, largest);
  return type == at::kQUInt4x2 ? packed_in_eights(integers) : integers.to(type);
}

Tensor quantised(const Tensor& exact, const Tensor& scale, const Tensor& offset, bool divide, at::ScalarType type) {
  const Tensor scaled = divide ? exact / wide(scale) : exact * wide(scale);
  return saturated(offset.defined() ? scaled + wide(offset) : scaled, type);
}

Quantised quantised_rows(const Tensor& exact, at::ScalarType type) {
  const Tensor scale = exact.abs().amax(-1, /*keepdim=*/true) / largest_of(type);
  const Tensor divisor = at::where(scale == 0, 1.0, scale);
  return {saturated(exact / divisor, type), scale.squeeze(-1).to(at::kFloat)};
}

}  // namespace npugraph::npu_ops
