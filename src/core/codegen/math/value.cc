// SPDX-License-Identifier: Apache-2.0
#include "codegen/math/value.h"

#include <llvm/IR/IntrinsicsX86.h>

namespace npugraph::codegen {
namespace {

using llvm::Type;
using llvm::Value;
using llvm::Intrinsic::ID;

// Layout of a format. Adding `magic` puts the integer part of a small number into the lowest bits.
struct Format {
  int fraction_bits;
  int bias;
  uint64_t sign;
  double magic;
};

const Format& format_of(Real a) {
  static constexpr Format kF32 = {23, 127, 1ull << 31, 0x1.8p23};
  static constexpr Format kF64 = {52, 1023, 1ull << 63, 0x1.8p52};
  return a.is_f64() ? kF64 : kF32;
}

Type* with_element(Value* like, Type* element) {
  auto* vector = llvm::dyn_cast<llvm::VectorType>(like->getType());
  return vector == nullptr ? element : llvm::VectorType::get(element, vector->getElementCount());
}

Type* integer_type(Real like) {
  const Emitter& e = like.emitter();
  return with_element(like.value(), like.is_f64() ? e.b.getInt64Ty() : e.b.getInt32Ty());
}

Real unary(ID id, Real a) { return {a.emitter(), a.emitter().b.CreateUnaryIntrinsic(id, a.value())}; }

Real product_sum(Real a, Real b, Real c) {
  llvm::IRBuilderBase& builder = a.emitter().b;
  return {a.emitter(),
          builder.CreateIntrinsic(llvm::Intrinsic::fma, {a.value()->getType()}, {a.value(), b.value(), c.value()})};
}

// AVX-512 scales by a power of two in one instruction; there is one intrinsic per width.
ID scale_intrinsic(Real x) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x.value()->getType());
  if (!x.emitter().target.masks || vector == nullptr) return llvm::Intrinsic::not_intrinsic;
  switch (vector->getPrimitiveSizeInBits()) {
    case 512:
      return x.is_f64() ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_512
                        : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512;
    case 256:
      return x.is_f64() ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_256
                        : llvm::Intrinsic::x86_avx512_mask_scalef_ps_256;
    case 128:
      return x.is_f64() ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_128
                        : llvm::Intrinsic::x86_avx512_mask_scalef_ps_128;
    default: return llvm::Intrinsic::not_intrinsic;
  }
}

Real scale_in_one(Real x, Real n, ID id) {
  constexpr int kCurrentRounding = 4;
  llvm::IRBuilderBase& b = x.emitter().b;
  const auto* vector = llvm::cast<llvm::FixedVectorType>(x.value()->getType());
  const unsigned mask_bits = std::max(8u, vector->getNumElements());
  std::vector<Value*> args = {x.value(), n.value(), llvm::PoisonValue::get(x.value()->getType()),
                              llvm::ConstantInt::getAllOnesValue(b.getIntNTy(mask_bits))};
  if (vector->getPrimitiveSizeInBits() == 512) args.push_back(b.getInt32(kCurrentRounding));
  return {x.emitter(), b.CreateIntrinsic(id, {}, args)};
}

}  // namespace

Mask operator&(Mask a, Mask b) { return {a.emitter(), a.emitter().b.CreateAnd(a.value(), b.value())}; }
Mask operator|(Mask a, Mask b) { return {a.emitter(), a.emitter().b.CreateOr(a.value(), b.value())}; }
Mask operator^(Mask a, Mask b) { return {a.emitter(), a.emitter().b.CreateXor(a.value(), b.value())}; }
Mask operator!(Mask a) { return {a.emitter(), a.emitter().b.CreateNot(a.value())}; }

Bits Bits::same(uint64_t constant) const { return {*e_, llvm::ConstantInt::get(value_->getType(), constant)}; }
Bits operator+(Bits a, Bits b) { return {a.emitter(), a.emitter().b.CreateAdd(a.value(), b.value())}; }
Bits operator-(Bits a, Bits b) { return {a.emitter(), a.emitter().b.CreateSub(a.value(), b.value())}; }
Bits operator&(Bits a, Bits b) { return {a.emitter(), a.emitter().b.CreateAnd(a.value(), b.value())}; }
Bits operator|(Bits a, Bits b) { return {a.emitter(), a.emitter().b.CreateOr(a.value(), b.value())}; }
Bits operator^(Bits a, Bits b) { return {a.emitter(), a.emitter().b.CreateXor(a.value(), b.value())}; }
Bits operator+(Bits a, uint64_t b) { return a + a.same(b); }
Bits operator-(Bits a, uint64_t b) { return a - a.same(b); }
Bits operator&(Bits a, uint64_t b) { return a & a.same(b); }
Bits operator<<(Bits a, int places) {
  return {a.emitter(), a.emitter().b.CreateShl(a.value(), a.same(places).value())};
}
Bits arithmetic_shift_right(Bits a, int places) {
  return {a.emitter(), a.emitter().b.CreateAShr(a.value(), a.same(places).value())};
}
Mask operator==(Bits a, uint64_t b) { return {a.emitter(), a.emitter().b.CreateICmpEQ(a.value(), a.same(b).value())}; }

Real Real::same(double constant) const { return {*e_, llvm::ConstantFP::get(value_->getType(), constant)}; }
Bits Real::bits() const { return {*e_, e_->b.CreateBitCast(value_, integer_type(*this))}; }

Real operator+(Real a, Real b) { return {a.emitter(), a.emitter().b.CreateFAdd(a.value(), b.value())}; }
Real operator-(Real a, Real b) { return {a.emitter(), a.emitter().b.CreateFSub(a.value(), b.value())}; }
Real operator*(Real a, Real b) { return {a.emitter(), a.emitter().b.CreateFMul(a.value(), b.value())}; }
Real operator/(Real a, Real b) { return {a.emitter(), a.emitter().b.CreateFDiv(a.value(), b.value())}; }
Real operator-(Real a) { return {a.emitter(), a.emitter().b.CreateFNeg(a.value())}; }
Real operator+(Real a, double b) { return a + a.same(b); }
Real operator-(Real a, double b) { return a - a.same(b); }
Real operator*(Real a, double b) { return a * a.same(b); }
Real operator+(double a, Real b) { return b.same(a) + b; }
Real operator-(double a, Real b) { return b.same(a) - b; }
Real operator*(double a, Real b) { return b.same(a) * b; }
Real operator/(double a, Real b) { return b.same(a) / b; }

Mask operator<(Real a, Real b) { return {a.emitter(), a.emitter().b.CreateFCmpOLT(a.value(), b.value())}; }
Mask operator<(Real a, double b) { return a < a.same(b); }
Mask operator>(Real a, double b) { return a.same(b) < a; }
Mask operator>=(Real a, double b) { return {a.emitter(), a.emitter().b.CreateFCmpOGE(a.value(), a.same(b).value())}; }
Mask operator==(Real a, Real b) { return {a.emitter(), a.emitter().b.CreateFCmpOEQ(a.value(), b.value())}; }
Mask operator==(Real a, double b) { return a == a.same(b); }
Mask operator!=(Real a, Real b) { return {a.emitter(), a.emitter().b.CreateFCmpUNE(a.value(), b.value())}; }

Real fma(Real a, Real b, Real c) { return a.emitter().target.fma ? product_sum(a, b, c) : a * b + c; }
Real fma(Real a, double b, Real c) { return fma(a, a.same(b), c); }
Real fma(Real a, Real b, double c) { return fma(a, b, a.same(c)); }

Real fused(Real a, Real b, Real c) {
  if (a.emitter().target.fma || a.is_f64()) return fma(a, b, c);
  return to_f32(to_f64(a) * to_f64(b) + to_f64(c));
}

Real abs(Real a) { return unary(llvm::Intrinsic::fabs, a); }
Real sqrt(Real a) { return unary(llvm::Intrinsic::sqrt, a); }
Real trunc(Real a) { return unary(llvm::Intrinsic::trunc, a); }

Real select(Mask mask, Real a, Real b) {
  return {a.emitter(), a.emitter().b.CreateSelect(mask.value(), a.value(), b.value())};
}
Real select(Mask mask, Real a, double b) { return select(mask, a, a.same(b)); }
Real select(Mask mask, double a, Real b) { return select(mask, b.same(a), b); }
Real select(Mask mask, double a, double b, Real like) { return select(mask, like.same(a), like.same(b)); }

// In this order of operands, minps and maxps keep a NaN.
Real at_most(Real a, double limit) { return select(a.same(limit) < a, limit, a); }
Real at_least(Real a, double limit) { return select(a < a.same(limit), limit, a); }

Bits sign_bit(Real a) { return a.bits() & format_of(a).sign; }

Mask is_negative(Real a) {
  const Bits bits = a.bits();
  return {a.emitter(), a.emitter().b.CreateICmpSLT(bits.value(), bits.same(0).value())};
}

Real flip_sign(Real a, Bits sign) { return real(a.bits() ^ sign); }

Real real(Bits a) {
  const Emitter& e = a.emitter();
  Type* element = a.value()->getType()->getScalarSizeInBits() == 64 ? e.b.getDoubleTy() : e.b.getFloatTy();
  return {e, e.b.CreateBitCast(a.value(), with_element(a.value(), element))};
}

Real to_f64(Real a) {
  llvm::IRBuilderBase& b = a.emitter().b;
  return {a.emitter(), b.CreateFPExt(a.value(), with_element(a.value(), b.getDoubleTy()))};
}

Real to_f32(Real a) {
  llvm::IRBuilderBase& b = a.emitter().b;
  return {a.emitter(), b.CreateFPTrunc(a.value(), with_element(a.value(), b.getFloatTy()))};
}

// By way of 32 bits, because AVX2 converts no 64-bit integers.
Real to_real(Bits a) {
  llvm::IRBuilderBase& b = a.emitter().b;
  const bool wide = a.value()->getType()->getScalarSizeInBits() == 64;
  Value* narrow = wide ? b.CreateTrunc(a.value(), with_element(a.value(), b.getInt32Ty())) : a.value();
  return {a.emitter(), b.CreateSIToFP(narrow, with_element(narrow, wide ? b.getDoubleTy() : b.getFloatTy()))};
}

Real polynomial(Real x, std::span<const double> coefficients) {
  Real sum = x.same(coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;) sum = fma(sum, x, coefficients[i]);
  return sum;
}

Rounded round_small(Real a) {
  const double magic = format_of(a).magic;
  const Real shifted = a + magic;
  return {shifted - magic, shifted.bits()};
}

Rounded round_product(Real a, double factor) {
  const double magic = format_of(a).magic;
  const Real shifted = fma(a, factor, a.same(magic));
  return {shifted - magic, shifted.bits()};
}

Real power_of_two(const Rounded& n, int offset) {
  const Format& format = format_of(n.value);
  const auto one = static_cast<uint64_t>(format.bias + offset) << format.fraction_bits;
  return real((n.bits << format.fraction_bits) + one);
}

Real scale(Real x, const Rounded& n) {
  if (const ID id = scale_intrinsic(x); id != llvm::Intrinsic::not_intrinsic) return scale_in_one(x, n.value, id);
  // Two factors, each a normal number.
  const Rounded half = round_product(n.value, 0.5);
  const Rounded rest = round_small(n.value - half.value);
  return x * power_of_two(half) * power_of_two(rest);
}

}  // namespace npugraph::codegen
