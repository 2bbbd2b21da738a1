// SPDX-License-Identifier: Apache-2.0
// Arithmetic on LLVM values in the notation of formulas, for the emitters of mathematical functions. A Real holds f32
// or f64, Bits hold integers of the same size, and a Mask holds bits; all are vectors, or all are scalars.
#pragma once

#include <limits>
#include <span>

#include <llvm/IR/IRBuilder.h>

#include "target/target.h"

namespace npugraph::codegen {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Emitter {
  llvm::IRBuilderBase& b;
  const target::Target& target;
};

class Mask {
 public:
  Mask(const Emitter& e, llvm::Value* value) : e_(&e), value_(value) {}
  llvm::Value* value() const { return value_; }
  const Emitter& emitter() const { return *e_; }

 private:
  const Emitter* e_;
  llvm::Value* value_;
};

Mask operator&(Mask a, Mask b);
Mask operator|(Mask a, Mask b);
Mask operator^(Mask a, Mask b);
Mask operator!(Mask a);

class Bits {
 public:
  Bits(const Emitter& e, llvm::Value* value) : e_(&e), value_(value) {}
  llvm::Value* value() const { return value_; }
  const Emitter& emitter() const { return *e_; }
  Bits same(uint64_t constant) const;  // in every lane

 private:
  const Emitter* e_;
  llvm::Value* value_;
};

Bits operator+(Bits a, Bits b);
Bits operator-(Bits a, Bits b);
Bits operator&(Bits a, Bits b);
Bits operator|(Bits a, Bits b);
Bits operator^(Bits a, Bits b);
Bits operator+(Bits a, uint64_t b);
Bits operator-(Bits a, uint64_t b);
Bits operator&(Bits a, uint64_t b);
Bits operator<<(Bits a, int places);
Bits arithmetic_shift_right(Bits a, int places);
Mask operator==(Bits a, uint64_t b);

class Real {
 public:
  Real(const Emitter& e, llvm::Value* value) : e_(&e), value_(value) {}
  llvm::Value* value() const { return value_; }
  const Emitter& emitter() const { return *e_; }
  bool is_f64() const { return value_->getType()->getScalarType()->isDoubleTy(); }
  Real same(double constant) const;  // in every lane
  Bits bits() const;

 private:
  const Emitter* e_;
  llvm::Value* value_;
};

Real operator+(Real a, Real b);
Real operator-(Real a, Real b);
Real operator*(Real a, Real b);
Real operator/(Real a, Real b);
Real operator-(Real a);
Real operator+(Real a, double b);
Real operator-(Real a, double b);
Real operator*(Real a, double b);
Real operator+(double a, Real b);
Real operator-(double a, Real b);
Real operator*(double a, Real b);
Real operator/(double a, Real b);

// False if either is NaN, except !=, which is true.
Mask operator<(Real a, Real b);
Mask operator<(Real a, double b);
Mask operator>(Real a, double b);
Mask operator>=(Real a, double b);
Mask operator==(Real a, Real b);
Mask operator==(Real a, double b);
Mask operator!=(Real a, Real b);

// a * b + c, rounded once if the target has an instruction for that, else twice.
Real fma(Real a, Real b, Real c);
Real fma(Real a, double b, Real c);
Real fma(Real a, Real b, double c);
// The same, but f32 is rounded once on every target. A target without that instruction computes it in f64 and may round
// a tie the wrong way.
Real fused(Real a, Real b, Real c);

Real abs(Real a);
Real sqrt(Real a);
Real trunc(Real a);
Real select(Mask mask, Real a, Real b);
Real select(Mask mask, Real a, double b);
Real select(Mask mask, double a, Real b);
Real select(Mask mask, double a, double b, Real like);
// The smaller, or larger one; a NaN stays NaN.
Real at_most(Real a, double limit);
Real at_least(Real a, double limit);

Bits sign_bit(Real a);              // of each lane; all other bits are 0
Mask is_negative(Real a);           // whether the sign bit is set
Real flip_sign(Real a, Bits sign);  // in lanes whose bit is set in `sign`, which holds sign bits only
Real real(Bits a);                  // the number with these bits

Real to_f64(Real a);
Real to_f32(Real a);
// The value of each integer, which fits into 32 bits.
Real to_real(Bits a);

// The polynomial with these coefficients, lowest power first.
Real polynomial(Real x, std::span<const double> coefficients);

// The integer nearest to a number of small magnitude (f32: 2^22, f64: 2^51). The lowest bits of `bits` hold it as an
// integer; `<<` to the exponent field shifts out the bits above it.
struct Rounded {
  Real value;
  Bits bits;
};
Rounded round_small(Real a);
Rounded round_product(Real a, double factor);  // of a * factor

// 2^(n + offset) for a rounded n; the result has to be a normal number.
Real power_of_two(const Rounded& n, int offset = 0);
// x * 2^n, rounded once, for x near 1. x * 2^n may exceed the range of the format by a few binades at most.
Real scale(Real x, const Rounded& n);

}  // namespace npugraph::codegen
