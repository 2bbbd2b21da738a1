// SPDX-License-Identifier: Apache-2.0
// Formulas of operators with several tensors, or a tensor and a number in its place.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/scalar/formulas.h"

namespace npugraph::ops::formulas {
namespace {

using loop::Op;
using loop::Value;

// e^t, or 0 where scale * e^t is below the smallest normal number: processors compute with such numbers a hundred times
// slower, and ATen's vector code has 0 there, too.
Value exp_if_normal(Args a, Value t, double scale) {
  const double smallest =
      t.dtype() == DType::kF64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  const Value none = a.constant(-std::numeric_limits<double>::infinity());
  return loop::unary(Op::kExp, loop::select(t < a.constant(std::log(smallest / scale)), none, t));
}

// Rounds once, as the processor code of ATen does.
Value multiplied_and_added(Value x, Value y, Value sum) {
  return is_floating(sum.dtype()) ? loop::fma(x, y, sum) : sum + x * y;
}

// x - alpha * y
Value difference(Args a, Value x, Value y) {
  return a.is_number("alpha", 1) ? x - y : multiplied_and_added(-a.number("alpha"), y, x);
}

}  // namespace

Value add(Args a) {
  return a.is_number("alpha", 1) ? a[0] + a[1] : multiplied_and_added(a.number("alpha"), a[1], a[0]);
}

Value sub(Args a) { return difference(a, a[0], a[1]); }

Value rsub(Args a) { return difference(a, a[1], a[0]); }

Value mul(Args a) { return a[0] * a[1]; }

Value div(Args a) { return a[0] / a[1]; }

// With rounding_mode "floor", "trunc", or none. Integers have a mode.
Value divide_by_mode(Args a) {
  const std::string_view mode = a.text(2);
  if (mode.empty()) return a[0] / a[1];
  return loop::binary(mode == "floor" ? Op::kFloorDiv : Op::kTruncDiv, a[0], a[1]);
}

Value floor_divide(Args a) { return loop::binary(Op::kFloorDiv, a[0], a[1]); }

// With the sign of the divisor.
Value remainder(Args a) { return loop::binary(Op::kFloorMod, a[0], a[1]); }

// With the sign of the dividend.
Value fmod(Args a) { return loop::binary(Op::kFmod, a[0], a[1]); }

Value maximum(Args a) { return loop::max(a[0], a[1]); }

Value minimum(Args a) { return loop::min(a[0], a[1]); }

// If one operand is NaN, the other one; if both are equal, the first.
Value fmax(Args a) {
  if (!a.is_float()) return loop::max(a[0], a[1]);
  const Value keeps = loop::unary(Op::kIsNan, a[1]) | (a[0] >= a[1]);
  return loop::select(keeps, a[0], a[1]);
}

Value fmin(Args a) {
  if (!a.is_float()) return loop::min(a[0], a[1]);
  const Value keeps = loop::unary(Op::kIsNan, a[1]) | (a[0] <= a[1]);
  return loop::select(keeps, a[0], a[1]);
}

// Uses products and roots for the same exponents as ATen, which rounds products of bf16 each time, and has none for
// f16: there, products have the same bits as the power, but roots have not.
Value power(Args a) {
  const auto is = [&](double exponent) { return a.is_number("exponent", exponent); };
  const auto rounded = [&](Value y) {
    return a.common_type() == DType::kBF16 ? loop::cast(loop::cast(y, DType::kBF16), y.dtype()) : y;
  };
  const Value x = a[0];
  if (is(2)) return x * x;
  if (is(3)) return rounded(x * x) * x;
  if (!a.is_float()) return loop::binary(Op::kPow, x, a[1]);
  const bool has_roots = a.common_type() != DType::kF16;
  if (has_roots && is(0.5)) return loop::unary(Op::kSqrt, x);
  if (has_roots && is(-0.5)) return loop::unary(Op::kRsqrt, x);
  if (is(-1)) return loop::unary(Op::kReciprocal, x);
  if (is(-2)) return loop::unary(Op::kReciprocal, rounded(x * x));
  return loop::binary(Op::kPow, x, a[1]);
}

bool is_float_power(const Call& call) {
  const auto* self = call.tensor(0);
  if (self == nullptr || is_floating(self->dtype)) return true;
  const auto exponent = call.known_integer(1);
  return exponent && (*exponent == 2 || *exponent == 3);
}

Value atan2(Args a) { return loop::binary(Op::kAtan2, a[0], a[1]); }

Value bit_and(Args a) { return a[0] & a[1]; }

Value bit_or(Args a) { return a[0] | a[1]; }

Value bit_xor(Args a) { return a[0] ^ a[1]; }

Value where(Args a) { return loop::select(a.as(0, DType::kBool), a[1], a[2]); }

Value masked_fill(Args a) { return loop::select(a.as(1, DType::kBool), a[2], a[0]); }

bool is_bool_first(const Call& call) { return call.tensor(0) != nullptr && call.tensor(0)->dtype == DType::kBool; }

bool is_bool_second(const Call& call) { return call.tensor(1) != nullptr && call.tensor(1)->dtype == DType::kBool; }

Value lerp(Args a) {
  const Value from = a[0], to = a[1], weight = a[2];
  const Value near_start = loop::fma(weight, to - from, from);
  const Value near_end = loop::fma(-(to - from), a.constant(1) - weight, to);
  return loop::select(loop::unary(Op::kAbs, weight) < a.constant(0.5), near_start, near_end);
}

Value addcmul(Args a) { return loop::fma(a.number("value") * a[1], a[2], a[0]); }

// Rounds twice, like the prim's own implementation.
Value multiply_add(Args a) { return a[0] * a[1] + a[2]; }

Value addcdiv(Args a) { return a[0] + a.number("value") * a[1] / a[2]; }

Value tanh_backward(Args a) { return a[0] * (a.constant(1) - a[1] * a[1]); }

Value sigmoid_backward(Args a) { return a[0] * (a.constant(1) - a[1]) * a[1]; }

Value silu_backward(Args a) {
  const Value gate = loop::unary(Op::kSigmoid, a[1]);
  return a[0] * gate * loop::fma(a[1], a.constant(1) - gate, a.constant(1));
}

Value threshold_backward(Args a) { return loop::select(a[1] <= a[2], a.constant(0), a[0]); }

Value gelu_backward(Args a) {
  const Value x = a[1];
  if (a.text(2) == "tanh") {
    const double scale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    const Value x2 = x * x;
    const Value t = loop::unary(Op::kTanh, x * a.constant(scale) * loop::fma(x2, a.constant(0.044715), a.constant(1)));
    const Value inner = a.constant(scale) * loop::fma(x2, a.constant(3 * 0.044715), a.constant(1));
    const Value half = a.constant(0.5);
    return a[0] * (half * (a.constant(1) + t) + half * x * (a.constant(1) - t * t) * inner);
  }
  const Value cdf =
      a.constant(0.5) * (a.constant(1) + loop::unary(Op::kErf, x * a.constant(0.5 * std::numbers::sqrt2)));
  const double scale = 0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const Value pdf = exp_if_normal(a, x * x * a.constant(-0.5), scale) * a.constant(scale);
  return a[0] * loop::fma(x, pdf, cdf);
}

}  // namespace npugraph::ops::formulas
