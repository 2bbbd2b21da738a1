// SPDX-License-Identifier: Apache-2.0
// Formulas of operators with one tensor.
#include <cmath>
#include <numbers>

#include "ops/scalar/formulas.h"

namespace npugraph::ops::formulas {
namespace {

using loop::Op;
using loop::Value;

Value sigmoid(Value x) { return loop::unary(Op::kSigmoid, x); }

Value exp(Value x) { return loop::unary(Op::kExp, x); }

// `x` if both are equal, so that zeros keep their signs. NaN if either is NaN.
Value at_least(Value x, Value low) {
  const Value keeps = x >= low;
  return loop::select(is_floating(x.dtype()) ? keeps | loop::unary(Op::kIsNan, x) : keeps, x, low);
}

Value at_most(Value x, Value high) {
  const Value keeps = x <= high;
  return loop::select(is_floating(x.dtype()) ? keeps | loop::unary(Op::kIsNan, x) : keeps, x, high);
}

Value clamp(Value x, Value low, Value high) { return at_most(at_least(x, low), high); }

Value elu_of(Value x, Value negative, Value positive, Value input) {
  const Value zero = x.builder->constant(x.dtype(), 0);
  return loop::select(x <= zero, loop::unary(Op::kExpm1, x * input) * negative, x * positive);
}

Value log1p_exp(Value x) { return loop::unary(Op::kLog1p, exp(x)); }

}  // namespace

// The sign of NaN is 0.
Value sign(Args a) {
  if (!a.is_float()) return loop::unary(Op::kSign, a[0]);
  const Value zero = a.constant(0);
  return loop::select(a[0] > zero, a.constant(1), loop::select(a[0] < zero, a.constant(-1), zero));
}

// Relu keeps NaN and -0.
Value relu(Args a) { return loop::select(a[0] < a.constant(0), a.constant(0), a[0]); }

Value square(Args a) { return a[0] * a[0]; }

Value frac(Args a) { return a[0] - loop::unary(Op::kTrunc, a[0]); }

Value hardtanh(Args a) { return clamp(a[0], a[1], a[2]); }

Value relu6(Args a) { return clamp(a[0], a.constant(0), a.constant(6)); }

Value leaky_relu(Args a) { return loop::select(a[0] > a.constant(0), a[0], a[0] * a[1]); }

Value elu(Args a) { return elu_of(a[0], a[1] * a[2], a[2], a[3]); }

Value celu(Args a) { return elu_of(a[0], a[1], a.constant(1), a.constant(1) / a[1]); }

Value selu(Args a) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return elu_of(a[0], a.constant(kAlpha * kScale), a.constant(kScale), a.constant(1));
}

Value silu(Args a) { return a[0] * sigmoid(a[0]); }

Value mish(Args a) { return a[0] * loop::unary(Op::kTanh, log1p_exp(a[0])); }

Value hard_gate(Args a) { return clamp(a[0] + a.constant(3), a.constant(0), a.constant(6)) / a.constant(6); }

Value hardswish(Args a) { return a[0] * clamp(a[0] + a.constant(3), a.constant(0), a.constant(6)) / a.constant(6); }

Value softplus(Args a) {
  const Value scaled = a[0] * a[1];
  return loop::select(scaled > a[2], a[0], log1p_exp(scaled) / a[1]);
}

Value log_sigmoid(Args a) { return loop::min(a[0], a.constant(0)) - log1p_exp(-loop::unary(Op::kAbs, a[0])); }

// x - x: 0.0, but NaN of NaN.
Value softshrink(Args a) {
  const Value x = a[0], limit = a[1];
  return loop::select(x > limit, x - limit, loop::select(x < -limit, x + limit, x - x));
}

Value hardshrink(Args a) {
  const Value x = a[0], limit = a[1];
  return loop::select((x >= -limit) & (x <= limit), a.constant(0), x);
}

Value threshold(Args a) { return loop::select(a[0] <= a[1], a[2], a[0]); }

Value gelu(Args a) {
  const Value x = a[0];
  if (a.text(1) == "tanh") {
    const Value inner = x * a.constant(std::numbers::sqrt2 * std::numbers::inv_sqrtpi) *
                        loop::fma(x * x, a.constant(0.044715), a.constant(1));
    return x * a.constant(0.5) * (a.constant(1) + loop::unary(Op::kTanh, inner));
  }
  return x * a.constant(0.5) * (a.constant(1) + loop::unary(Op::kErf, x * a.constant(0.5 * std::numbers::sqrt2)));
}

bool is_known_gelu(const Call& call) {
  const auto* approximate = std::get_if<std::string>(&call.args.back());
  return approximate != nullptr && (*approximate == "none" || *approximate == "tanh");
}

Value clamp_args(Args a) {
  Value x = a[0];
  if (a.has(1)) x = at_least(x, a[1]);
  if (a.has(2)) x = at_most(x, a[2]);
  return x;
}

Value clamp_min(Args a) { return at_least(a[0], a[1]); }

Value clamp_max(Args a) { return at_most(a[0], a[1]); }

Value is_nan(Args a) { return loop::unary(Op::kIsNan, a[0]); }

Value is_infinite(Args a) { return loop::unary(Op::kAbs, a[0]) == a.constant(INFINITY); }

Value is_finite(Args a) { return loop::unary(Op::kAbs, a[0]) < a.constant(INFINITY); }

Value same(Args a) { return a[0]; }

Value bit_not(Args a) { return ~a[0]; }

Value zero(Args a) { return a.constant(0); }

Value filled(Args a) { return a[1]; }

}  // namespace npugraph::ops::formulas
