// SPDX-License-Identifier: Apache-2.0
// Trigonometric functions and their inverses. sin, cos and tan: x = k pi/2 + r. Polynomials of r give the values, and k
// the quarter of the turn.
#include "codegen/math/coefficients.h"
#include "codegen/math/functions.h"

namespace npugraph::codegen {

namespace {

constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
constexpr double kLargest = 1e5;  // beyond, the reductions here lose precision

struct Turned {
  Bits quarters;  // k in the lowest bits
  Real r;
};

// For 0 <= x <= kLargest. pi/2 has three parts: the first step is exact, and the last one matters if x is near a
// multiple.
Turned reduce_angle(Real x) {
  constexpr double kParts[] = {0x1.921fb6p+0, -0x1.777a5cp-25, -0x1.ee59dap-50};
  const Rounded k = round_product(x, kTwoOverPi);
  Real r = x;
  for (const double part : kParts) r = fused(k.value, x.same(-part), r);
  return {k.bits, r};
}

// sin(turned.r + turned.quarters * pi/2)
Real sin_of(const Turned& turned) {
  const Real r = turned.r;
  const Real z = r * r;
  const Real sine = fma(r * z, polynomial(z, kSinTail), r);
  const Real cosine = fma(z, fma(z, polynomial(z, kCosTail), -0.5), 1);
  const Real value = select((turned.quarters & 1) == 0, sine, cosine);
  return flip_sign(value, (turned.quarters << 30) & 0x80000000);
}

}  // namespace

Real emit_sin(Real x) {
  const Real magnitude = abs(x);
  const Real fast = flip_sign(sin_of(reduce_angle(magnitude)), sign_bit(x));
  return call_lanes("sin", magnitude > kLargest, {{x}}, fast);
}

Real emit_cos(Real x) {
  const Real magnitude = abs(x);
  Turned turned = reduce_angle(magnitude);
  turned.quarters = turned.quarters + 1;
  return call_lanes("cos", magnitude > kLargest, {{x}}, sin_of(turned));
}

// In f64: the tangent amplifies the errors of f32 too much near pi/4.
Real emit_tan(Real x) {
  constexpr double kParts[] = {0x1.921fb544p+0, 0x1.0b4611a626331p-34};  // multiples of the first are exact
  const Real wide = to_f64(x);
  const Rounded k = round_product(wide, kTwoOverPi);
  const Real r = fma(k.value, -kParts[1], fma(k.value, -kParts[0], wide));
  const Real z = r * r;
  const Real tangent = fma(r * z, polynomial(z, kTanWide), r);
  const Mask even = (k.bits & 1) == 0;
  const Real fast = select(even, tangent, -1) / select(even, 1, tangent);
  return call_lanes("tan", abs(x) > kLargest, {{x}}, to_f32(fast));
}

// Inverse trigonometric functions. Multiples of pi/2 are sums of two parts, added such that large terms cancel exactly.

namespace {

constexpr double kHalfPiHigh = 0x1.921fb6p+0;
constexpr double kHalfPiLow = -0x1.777a5cp-25;

// asin(root) = root + tail, for 0 <= root <= 1/2. root is |x|, or sqrt((1 - |x|) / 2) if |x| is `large`, as then
// asin(|x|) = pi/2 - 2 asin(root).
struct Folded {
  Mask large;
  Real root;
  Real tail;
};

Folded fold(Real x) {
  const Real magnitude = abs(x);
  const Mask large = magnitude > 0.5;
  const Real z = select(large, (1 - magnitude) * 0.5, x * x);
  const Real root = select(large, sqrt(z), magnitude);
  return {large, root, root * z * polynomial(z, kAsinTail)};
}

// atan(t) - t for 0 <= |t| <= 1
Real atan_tail(Real t) {
  const Real z = t * t;
  return t * z * polynomial(z, kAtanTail);
}

}  // namespace

Real emit_asin(Real x) {
  const auto [large, root, tail] = fold(x);
  const Real high = fma(root, -2, root.same(kHalfPiHigh));
  const Real lost = fma(root, -2, kHalfPiHigh - high);  // by rounding `high`
  const Real far = high - (fma(tail, 2, tail.same(-kHalfPiLow)) - lost);
  return flip_sign(select(large, far, root + tail), sign_bit(x));
}

Real emit_acos(Real x) {
  const auto [large, root, tail] = fold(x);
  const Bits sign = sign_bit(x);
  // |x| <= 1/2: pi/2 - asin(x). Else 2 asin(root), or pi minus that.
  const Real near = (kHalfPiHigh - flip_sign(root, sign)) - (flip_sign(tail, sign) - kHalfPiLow);
  const Real twice = (root + tail) * 2;
  const Real far = select(is_negative(x), 2 * kHalfPiHigh - (twice - 2 * kHalfPiLow), twice);
  return select(large, far, near);
}

Real emit_atan(Real x) {
  const Real magnitude = abs(x);
  const Mask large = magnitude > 1;
  const Real t = select(large, -1, magnitude) / select(large, magnitude, 1);
  const Real tail = atan_tail(t) + select(large, kHalfPiLow, 0, x);
  return flip_sign((t + select(large, kHalfPiHigh, 0, x)) + tail, sign_bit(x));
}

// Computes the angle from the nearer axis, converts it to the angle from the positive x axis by means of the signs, and
// gives it the sign of y.
Real emit_atan2(Real y, Real x) {
  const Real ax = abs(x);
  const Real ay = abs(y);
  const Mask steep = ax < ay;
  const Mask left = is_negative(x);
  const Real shorter = select(steep, ax, ay);
  const Real longer = select(steep, ay, ax);
  // Infinity / infinity counts as 1 and 0 / 0 as 0.
  Real t = select(shorter == longer, select(longer == 0, 0, 1, x), shorter / longer);
  t = select(steep ^ left, -t, t);
  const Real high = select(steep, t.same(kHalfPiHigh), select(left, 2 * kHalfPiHigh, 0, t));
  const Real low = select(steep, t.same(kHalfPiLow), select(left, 2 * kHalfPiLow, 0, t));
  return flip_sign((high + t) + (atan_tail(t) + low), sign_bit(y));
}

}  // namespace npugraph::codegen
