// SPDX-License-Identifier: Apache-2.0
#include "torch/npu_ops/quantised.h"

#include <limits>

namespace npugraph::npu_ops {
namespace {

double largest_of(at::ScalarType type) {
  switch (type) {
    case at::kChar: return std::numeric_limits<int8_t>::max();
    case at::kInt: return std::numeric_limits<int32_t>::max();
    case at::kFloat8_e4m3fn: return static_cast<float>(std::numeric_limits<at::Float8_e4m3fn>::max());
    case at::kFloat8_e5m2: return static_cast<float>(std::numeric_limits<at::Float8_e5m2>::max());
    default: TORCH_INTERNAL_ASSERT(false, type);
  }
}

}  // namespace

at::ScalarType quantised_type(const char* op, const char* name, std::optional<int64_t> code) {
  const at::ScalarType type = type_of_code(op, name, code, at::kChar);
  if (type == at::kChar || type == at::kQInt8) return at::kChar;
  TORCH_CHECK(type == at::kFloat8_e4m3fn || type == at::kFloat8_e5m2, op, ": ", name, " is ", type,
              ", allowed are int8, float8_e4m3fn and float8_e5m2");
  return type;
}

Tensor saturated(const Tensor& exact, at::ScalarType type) {
  const double largest = largest_of(type);
  if (!at::isIntegralType(type, /*includeBool=*/false)) return exact.clamp(-largest, largest).to(type);
  return exact.round().clamp(-largest - 1, largest).to(type);
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
