// SPDX-License-Identifier: Apache-2.0
// Logarithms, powers and remainders. x = 2^e (1 + f) with small f; log(1 + f) is a polynomial.
#include "codegen/math/coefficients.h"
#include "codegen/math/functions.h"

namespace npugraph::codegen {

namespace {

// Constants of a base: its logarithms of 2 (ln2) and of e (unit), each as a sum of two parts. Multiples of ln2_high up
// to 2^8 are exact.
struct Base {
  double ln2_high, ln2_low, unit_high, unit_low;
};
constexpr Base kNatural = {0x1.62e4p-1, 0x1.7f7d1cp-20, 1, 0};
constexpr Base kBinary = {1, 0, 0x1.715476p+0, 0x1.4ae0cp-26};
constexpr Base kDecimal = {0x1.3440p-2, 0x1.3509f8p-18, 0x1.bcb7b2p-2, -0x1.5b235ep-27};

struct Split {
  Real e;
  Real f;
  Bits exponent_field;  // e, shifted to the exponent field
};

// For normal x; 1 + f is in [2/3, 4/3).
Split split(Real x) {
  constexpr uint64_t kLow = 0x3f2aaaab;
  const Bits shifted = x.bits() - kLow;
  const Real m = real((shifted & 0x007fffff) + kLow);
  return {to_real(arithmetic_shift_right(shifted, 23)), m - 1, shifted & 0xff800000};
}

// The same for normal and denormal x, without `exponent_field`.
Split split_any(Real x) {
  const Mask small = x < 0x1p-126;
  Split s = split(select(small, x * 0x1p24, x));
  s.e = select(small, s.e - 24, s.e);
  return s;
}

Real combine(const Split& s, const Base& base) {
  const Real tail = (s.f * s.f) * polynomial(s.f, kLogTail);
  if (base.unit_high == 1) return fma(s.e, base.ln2_high, fma(s.e, base.ln2_low, tail) + s.f);
  const Real low = fma(s.f, base.unit_low, fma(tail, base.unit_high, s.e * base.ln2_low));
  return fma(s.e, base.ln2_high, fused(s.f, s.f.same(base.unit_high), low));
}

// `y`, corrected for arguments that have no finite logarithm.
Real with_limits(Real x, Real y) {
  y = select(x < kInfinity, y, x);
  y = select(x == 0, -kInfinity, y);
  return select(x < 0, kNaN, y);
}

Real log_f64(Real x) {
  constexpr uint64_t kLow = 0x3fe6a09e667f3bcd;  // sqrt(1/2)
  constexpr double kLn2High = 0x1.62e42fee00000p-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  const Mask small = x < 0x1p-1022;
  const Bits shifted = select(small, x * 0x1p54, x).bits() - kLow;
  const Real exponent = to_real(arithmetic_shift_right(shifted, 52));
  const Real e = select(small, exponent - 54, exponent);
  const Real f = real((shifted & 0x000fffffffffffff) + kLow) - 1;

  // log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + z P(z)), s = f / (2 + f)
  const Real s = f / (f + 2);
  const Real z = s * s;
  const Real half_square = f * f * 0.5;
  const Real rest = fma(s, fma(z, polynomial(z, kLogTailF64), half_square), e * kLn2Low);
  return with_limits(x, fma(e, kLn2High, f - (half_square - rest)));
}

}  // namespace

Real emit_log(Real x) { return x.is_f64() ? log_f64(x) : with_limits(x, combine(split_any(x), kNatural)); }
Real emit_log2(Real x) { return with_limits(x, combine(split_any(x), kBinary)); }
Real emit_log10(Real x) { return with_limits(x, combine(split_any(x), kDecimal)); }

// With 1 + x = 2^e (1 + f), where f comes from x itself. For large x, whose 2^-e may be denormal, f comes from the sum,
// as adding 1 loses nothing.
Real emit_log1p(Real x) {
  const Real sum = x + 1;
  Split s = split(sum);
  const Real inverse = real(s.exponent_field.same(0x3f800000) - s.exponent_field);  // 2^-e
  s.f = select(x < 0x1p26, fma(x, inverse, inverse - 1), s.f);
  return select(x == 0, x, with_limits(sum, combine(s, kNatural)));
}

namespace {

// log2(x) in f64, for 0 <= x <= infinity that has been converted from f32.
Real log2_wide(Real x) {
  constexpr uint64_t kLow = 0x3fe6a09e667f3bcd;  // sqrt(1/2)
  const Bits shifted = x.bits() - kLow;
  const Real m = real((shifted & 0x000fffffffffffff) + kLow);
  const Real s = (m - 1) / (m + 1);
  const Real finite = fma(s, polynomial(s * s, kLog2Wide), to_real(arithmetic_shift_right(shifted, 52)));
  return select(x == 0, -kInfinity, select(x < kInfinity, finite, x));
}

// |x|^y. Computed in f64, where the error of log2(x) stays small enough after the product with y.
Real power_of_magnitude(Real x, Real y) {
  const Real exponent = log2_wide(to_f64(abs(x))) * to_f64(y);
  const Real in_range = at_most(at_least(exponent, -160), 160);
  const Rounded n = round_small(in_range);
  return to_f32(polynomial(in_range - n.value, kExp2Wide) * power_of_two(n));
}

}  // namespace

Real emit_pow(Real x, Real y) {
  const Mask integer = trunc(y) == y;
  const Real half = y * 0.5;
  const Mask odd = integer & (trunc(half) != half);

  Real result = power_of_magnitude(x, y);
  result = select(odd, flip_sign(result, sign_bit(x)), result);
  result = select((x < 0) & (x > -kInfinity) & !integer, kNaN, result);
  const Mask unit = (x == 1) | (y == 0) | ((x == -1) & (abs(y) == kInfinity));
  return select(unit, 1, result);
}

// |x| - trunc(|x| / |y|) |y|. Exact for quotients below 2^22: rounding makes these too large by 1 at most.
Real emit_fmod(Real x, Real y) {
  const Real ax = abs(x);
  const Real ay = abs(y);
  const Real quotient = trunc(ax / ay);
  Real rest = fused(-quotient, ay, ax);
  rest = select(rest < 0, rest + ay, rest);
  rest = select(ax < ay, ax, rest);  // also for infinite y
  const Mask slow = !(quotient < quotient.same(0x1p22));
  return call_lanes("fmod", slow, {{x, y}}, flip_sign(rest, sign_bit(x)));
}

}  // namespace npugraph::codegen
