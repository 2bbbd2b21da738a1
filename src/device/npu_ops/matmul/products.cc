// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/matmul/products.h"

namespace npugraph::npu_ops {
namespace {

Tensor as_float(const Tensor& scale) {
  return scale.scalar_type() == at::kLong ? scale.to(at::kInt).view(at::kFloat) : wide(scale);
}

}  // namespace

void check_absent(const char* op, const char* name, bool is_given) {
  TORCH_CHECK_NOT_IMPLEMENTED(!is_given, op, ": ", name, " is not supported on the host");
}

Tensor Product::operator()(const Tensor& x1, const Tensor& x2) const {
  const bool whole = !x1.is_floating_point() && !x2.is_floating_point();
  Tensor out = whole ? at::matmul(x1.to(at::kInt), x2.to(at::kInt)) : at::matmul(wide(x1), wide(x2));
  const bool bias_first = given(bias) && bias->scalar_type() == at::kInt;
  if (bias_first) out = out + *bias;
  out = wide(out);
  if (given(x2_scale)) out = out * as_float(*x2_scale).reshape({-1});
  if (given(x1_scale)) out = out * as_float(*x1_scale).reshape({-1, 1}).expand({out.size(-2), 1});
  return given(bias) && !bias_first ? out + wide(*bias) : out;
}

at::ScalarType result_type(const Tensor& x1, const OptionalTensor& scale, OptionalType wanted) {
  if (wanted) return *wanted;
  if (c10::elementSize(x1.scalar_type()) > 1) return x1.scalar_type();
  if (!given(scale)) return at::kHalf;
  const bool is_float = scale->scalar_type() == at::kFloat && x1.scalar_type() == at::kChar;
  return is_float || scale->scalar_type() == at::kBFloat16 ? at::kBFloat16 : at::kHalf;
}

at::ScalarType result_type(const char* op, const char* name, const Tensor& x1, const OptionalTensor& scale,
                           std::optional<int64_t> code) {
  const at::ScalarType fallback = result_type(x1, scale, std::nullopt);
  return type_of_code(op, name, code, fallback);
}

}  // namespace npugraph::npu_ops
