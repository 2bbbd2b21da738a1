// SPDX-License-Identifier: Apache-2.0
// exp, the functions computed from it, and the error function. x = n log(2) + r; exp(x) = 2^n exp(r), and exp(r) is a
// polynomial.
#include <numbers>

#include "codegen/math/coefficients.h"
#include "codegen/math/functions.h"

namespace npugraph::codegen {

namespace {

struct Constants {
  double overflow;   // exp() is infinite from here on
  double underflow;  // exp() is zero up to here
  double ln2_high;   // its product with n is exact
  double ln2_low;
  double expm1_is_minus_1;  // expm1() is -1 up to here
  double tanh_is_1;         // tanh() is 1 from here on
  double tiny;              // odd functions are the identity up to here
  std::span<const double> tail;
};

const Constants& constants(Real x) {
  static constexpr Constants kF32 = {88.8, -104, 0x1.62e4p-1, 0x1.7f7d1cp-20, -18, 10, 0x1p-30, kExpTail};
  static constexpr Constants kF64 = {709.8, -746,    0x1.62e42fefa0000p-1, 0x1.cf79abc9e3b3ap-40, -38,
                                     20,    0x1p-60, kExpTailF64};
  return x.is_f64() ? kF64 : kF32;
}

struct Reduced {
  Rounded n;
  Real r;
};

Reduced reduce_exponent(Real x) {
  const Constants& c = constants(x);
  const Rounded n = round_product(x, std::numbers::log2e);
  return {n, fma(n.value, -c.ln2_low, fma(n.value, -c.ln2_high, x))};
}

Real exp_of_rest(Real r) { return fma(fma(polynomial(r, constants(r).tail), r, 1), r, 1); }

// expm1(x) / 4 for x within the range of n: no overflow where expm1(x) / 2 has none.
Real quarter_expm1(Real x) {
  const auto [n, r] = reduce_exponent(x);
  const Real rest = fma(r * r, polynomial(r, constants(x).tail), r);
  const Real power = power_of_two(n, -2);
  return fma(rest, power, power - 0.25);
}

}  // namespace

Real emit_exp(Real x) {
  const Constants& c = constants(x);
  // Results that are 0 are not computed, because underflow is slow on processors and masked inputs often cause it.
  const Mask vanishes = x < c.underflow;
  const auto [n, r] = reduce_exponent(at_most(select(vanishes, 0.0, x), c.overflow));
  return select(vanishes, 0.0, scale(exp_of_rest(r), n));
}

Real emit_exp2(Real x) {
  const Real in_range = at_most(at_least(x, -151), 129);
  const Rounded n = round_small(in_range);
  const Real r = in_range - n.value;
  return scale(fma(polynomial(r, kExp2Tail), r, 1), n);
}

// For f32 up to 0, and NaN. Results below the smallest normal number are 0.
Real emit_exp2_to_one(Real x, std::span<const double> tail) {
  const Rounded n = round_small(x);
  const Real r = x - n.value;
  return select(x < -126, 0.0, scale(fma(polynomial(r, tail), r, 1), n));
}

Real emit_expm1(Real x) {
  const Constants& c = constants(x);
  const Real quarter = quarter_expm1(at_most(at_least(x, c.expm1_is_minus_1), c.overflow));
  return select(abs(x) < x.same(c.tiny), x, quarter * 4);
}

// t / (1 + t) or 1 / (1 + t) for t = exp(-|x|), which does not overflow, so that small results are right. Computed as s
// - s q with q = t / (1 + t), because the rounding of 1 + t then matters less.
Real emit_sigmoid(Real x) {
  const Real t = emit_exp(-abs(x));
  const Real q = t / (t + 1);
  const Real s = select(x < 0, t, 1.0);
  return fused(-s, q, s);
}

// y / (y + 1) for y = expm1(2 |x|) / 2; small y as in emit_sigmoid().
Real emit_tanh(Real x) {
  const Real y = quarter_expm1(at_most(abs(x), constants(x).tanh_is_1) * 2) * 2;
  const Real q = y / (y + 1);
  const Real t = select(y < y.same(1), fused(-y, q, y), q);
  return select(abs(x) < x.same(constants(x).tiny), x, flip_sign(t, sign_bit(x)));
}

// y - y q / 2 or (y + q) / 2, whichever is more precise, for y = expm1(|x|) and q = y / (y + 1), from a quarter of y.
Real emit_sinh(Real x) {
  const Constants& c = constants(x);
  const Real quarter = quarter_expm1(at_most(abs(x), c.overflow + 0.7));
  const Real q = quarter / (quarter + 0.25);
  const Mask small = quarter < x.same(0.375);
  const Real y = fused(select(small, quarter * -2, 0.5), q, quarter * select(small, 4, 2, x));
  return select(abs(x) < x.same(c.tiny), x, flip_sign(y, sign_bit(x)));
}

// h + 1 / (4 h) for h = exp(|x|) / 2.
Real emit_cosh(Real x) {
  auto [n, r] = reduce_exponent(at_most(abs(x), constants(x).overflow + 0.7));
  const Real half = exp_of_rest(r) * power_of_two(n, -2) * 2;
  return half + 0.25 / half;
}

// The error function and its complement.

// Odd polynomial near zero, 1 - 2^P(|x|) elsewhere; erf(x) is 1 from 3.92 on.
Real emit_erf(Real x) {
  const Real magnitude = abs(x);
  const Real factor = polynomial(x * x, kErfTail);
  // Without fma, x * factor + x could flush the small product although the sum is not flushed.
  const Real near = x.emitter().target.fma ? fma(x, factor, x) : x * (factor + 1);

  const Real exponent = polynomial(at_most(magnitude, 4), kLog2Erfc);
  const Rounded n = round_small(exponent);
  const Real r = exponent - n.value;
  const Real power = fma(polynomial(r, kExp2TailShort), r, 1);
  const Real far = fma(-power, power_of_two(n), 1);
  return select(magnitude < x.same(0.8), near, flip_sign(far, sign_bit(x)));
}

// exp(-x^2) P(1 / (|x| + 3)), or 2 minus that; in f64, as f32 has no bits to spare for the exponent.
Real emit_erfc(Real x) {
  const Real magnitude = at_most(to_f64(abs(x)), 10.3);
  const Real exponent = magnitude * magnitude * -std::numbers::log2e;
  const Rounded n = round_small(exponent);
  const Real power = polynomial(exponent - n.value, kExp2Wide) * power_of_two(n);
  const Real y = power * polynomial(1 / (magnitude + 3), kErfcWide);
  return to_f32(select(to_f64(x) < 0, 2 - y, y));
}

}  // namespace npugraph::codegen
