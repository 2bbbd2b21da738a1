// SPDX-License-Identifier: Apache-2.0
// The error function and its complement.
#include <numbers>

#include "codegen/math/coefficients.h"
#include "codegen/math/functions.h"

namespace npugraph::codegen {

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
