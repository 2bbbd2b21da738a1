// SPDX-License-Identifier: Apache-2.0
// Functions of two arguments: powers and remainders.
#include "codegen/math/coefficients.h"
#include "codegen/math/functions.h"

namespace npugraph::codegen {
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
