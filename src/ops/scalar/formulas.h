// SPDX-License-Identifier: Apache-2.0
// The formulas that rows name as `.scalar`, and the requirements of some beyond their domains. Internal to ops/.
#pragma once

#include "ops/scalar/scalar_rules.h"

namespace npugraph::ops::formulas {

template <loop::Op op>
loop::Value function(const ScalarArgs& a) {
  return loop::unary(op, a[0]);
}
template <loop::Op op>
loop::Value compare(const ScalarArgs& a) {
  return loop::binary(op, a[0], a[1]);
}

// One tensor.
loop::Value sign(const ScalarArgs& a);
loop::Value relu(const ScalarArgs& a);
loop::Value square(const ScalarArgs& a);
loop::Value frac(const ScalarArgs& a);
loop::Value hardtanh(const ScalarArgs& a);
loop::Value relu6(const ScalarArgs& a);
loop::Value leaky_relu(const ScalarArgs& a);
loop::Value elu(const ScalarArgs& a);
loop::Value celu(const ScalarArgs& a);
loop::Value selu(const ScalarArgs& a);
loop::Value silu(const ScalarArgs& a);
loop::Value mish(const ScalarArgs& a);
loop::Value hard_gate(const ScalarArgs& a);
loop::Value hardswish(const ScalarArgs& a);
loop::Value softplus(const ScalarArgs& a);
loop::Value log_sigmoid(const ScalarArgs& a);
loop::Value softshrink(const ScalarArgs& a);
loop::Value hardshrink(const ScalarArgs& a);
loop::Value threshold(const ScalarArgs& a);
loop::Value gelu(const ScalarArgs& a);
bool is_known_gelu(const Call& call);
loop::Value clamp_args(const ScalarArgs& a);
loop::Value clamp_min(const ScalarArgs& a);
loop::Value clamp_max(const ScalarArgs& a);
loop::Value is_nan(const ScalarArgs& a);
loop::Value is_infinite(const ScalarArgs& a);
loop::Value is_finite(const ScalarArgs& a);
loop::Value same(const ScalarArgs& a);
loop::Value bit_not(const ScalarArgs& a);
loop::Value zero(const ScalarArgs& a);
loop::Value filled(const ScalarArgs& a);

// Several tensors, or a tensor and a number in its place.
loop::Value add(const ScalarArgs& a);
loop::Value sub(const ScalarArgs& a);
loop::Value rsub(const ScalarArgs& a);
loop::Value mul(const ScalarArgs& a);
loop::Value div(const ScalarArgs& a);
loop::Value divide_by_mode(const ScalarArgs& a);
loop::Value floor_divide(const ScalarArgs& a);
loop::Value remainder(const ScalarArgs& a);
loop::Value fmod(const ScalarArgs& a);
loop::Value maximum(const ScalarArgs& a);
loop::Value minimum(const ScalarArgs& a);
loop::Value fmax(const ScalarArgs& a);
loop::Value fmin(const ScalarArgs& a);
loop::Value power(const ScalarArgs& a);
bool is_float_power(const Call& call);
loop::Value atan2(const ScalarArgs& a);
loop::Value bit_and(const ScalarArgs& a);
loop::Value bit_or(const ScalarArgs& a);
loop::Value bit_xor(const ScalarArgs& a);
loop::Value where(const ScalarArgs& a);
loop::Value masked_fill(const ScalarArgs& a);
bool is_bool_first(const Call& call);
bool is_bool_second(const Call& call);
loop::Value lerp(const ScalarArgs& a);
loop::Value multiply_add(const ScalarArgs& a);
loop::Value addcmul(const ScalarArgs& a);
loop::Value addcdiv(const ScalarArgs& a);
loop::Value tanh_backward(const ScalarArgs& a);
loop::Value sigmoid_backward(const ScalarArgs& a);
loop::Value silu_backward(const ScalarArgs& a);
loop::Value threshold_backward(const ScalarArgs& a);
loop::Value gelu_backward(const ScalarArgs& a);

// Quantisation.
loop::Value quantize_by_number(const ScalarArgs& a);
loop::Value quantize_by_element(const ScalarArgs& a);
loop::Value dequantize(const ScalarArgs& a);
loop::Value dequantize_channel(const ScalarArgs& a);
bool fits_quantize_by_number(const Call& call);
bool fits_quantize_by_element(const Call& call);
bool fits_quantize_by_channel(const Call& call);
bool fits_dequantize_by_number(const Call& call);
bool fits_dequantize_by_element(const Call& call);
bool fits_dequantize_by_channel(const Call& call);

}  // namespace npugraph::ops::formulas
