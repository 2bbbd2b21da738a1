// SPDX-License-Identifier: Apache-2.0
// The formulas that rows name as `.scalar`, and the requirements of some beyond their domains. Internal to ops/.
#pragma once

#include "ops/scalar/scalar_rules.h"

namespace npugraph::ops::formulas {

using Args = const ScalarArgs&;

template <loop::Op op>
loop::Value function(Args a) {
  return loop::unary(op, a[0]);
}
template <loop::Op op>
loop::Value compare(Args a) {
  return loop::binary(op, a[0], a[1]);
}

// One tensor.
loop::Value sign(Args a);
loop::Value relu(Args a);
loop::Value square(Args a);
loop::Value frac(Args a);
loop::Value hardtanh(Args a);
loop::Value relu6(Args a);
loop::Value leaky_relu(Args a);
loop::Value elu(Args a);
loop::Value celu(Args a);
loop::Value selu(Args a);
loop::Value silu(Args a);
loop::Value mish(Args a);
loop::Value hard_gate(Args a);
loop::Value hardswish(Args a);
loop::Value softplus(Args a);
loop::Value log_sigmoid(Args a);
loop::Value softshrink(Args a);
loop::Value hardshrink(Args a);
loop::Value threshold(Args a);
loop::Value gelu(Args a);
bool is_known_gelu(const Call& call);
loop::Value clamp_args(Args a);
loop::Value clamp_min(Args a);
loop::Value clamp_max(Args a);
loop::Value is_nan(Args a);
loop::Value is_infinite(Args a);
loop::Value is_finite(Args a);
loop::Value same(Args a);
loop::Value bit_not(Args a);
loop::Value zero(Args a);
loop::Value filled(Args a);

// Several tensors, or a tensor and a number in its place.
loop::Value add(Args a);
loop::Value sub(Args a);
loop::Value rsub(Args a);
loop::Value mul(Args a);
loop::Value div(Args a);
loop::Value divide_by_mode(Args a);
loop::Value floor_divide(Args a);
loop::Value remainder(Args a);
loop::Value fmod(Args a);
loop::Value maximum(Args a);
loop::Value minimum(Args a);
loop::Value fmax(Args a);
loop::Value fmin(Args a);
loop::Value power(Args a);
bool is_float_power(const Call& call);
loop::Value atan2(Args a);
loop::Value bit_and(Args a);
loop::Value bit_or(Args a);
loop::Value bit_xor(Args a);
loop::Value where(Args a);
loop::Value masked_fill(Args a);
bool is_bool_first(const Call& call);
bool is_bool_second(const Call& call);
loop::Value lerp(Args a);
loop::Value multiply_add(Args a);
loop::Value addcmul(Args a);
loop::Value addcdiv(Args a);
loop::Value tanh_backward(Args a);
loop::Value sigmoid_backward(Args a);
loop::Value silu_backward(Args a);
loop::Value threshold_backward(Args a);
loop::Value gelu_backward(Args a);

// Quantisation.
loop::Value quantize_by_number(Args a);
loop::Value quantize_by_element(Args a);
loop::Value dequantize(Args a);
loop::Value dequantize_channel(Args a);
bool fits_quantize_by_number(const Call& call);
bool fits_quantize_by_element(const Call& call);
bool fits_quantize_by_channel(const Call& call);
bool fits_dequantize_by_number(const Call& call);
bool fits_dequantize_by_element(const Call& call);
bool fits_dequantize_by_channel(const Call& call);

}  // namespace npugraph::ops::formulas
