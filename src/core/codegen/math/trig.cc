// SPDX-License-Identifier: Apache-2.0
// sin, cos and tan: x = k pi/2 + r. Polynomials of r give the values, and k the quarter of the turn.
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

}  // namespace npugraph::codegen
