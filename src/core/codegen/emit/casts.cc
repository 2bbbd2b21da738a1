// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/casts.h"

#include "base/error.h"
#include "loop/op.h"

namespace npugraph::codegen {

namespace {

using llvm::Type;
using llvm::Value;
using target::Target;

bool is_small_float(DType dtype) { return is_floating(dtype) && size_of(dtype) < 4; }

Value* float_number(Value* like, double value) { return llvm::ConstantFP::get(like->getType(), value); }

// fptosi, with the smallest integer for NaN and for values that do not fit.
Value* to_signed(Ir& b, const Target& target, Value* value, Type* scalar) {
  Type* type = in_lanes(scalar, lanes_of(value));
  Value* converted = b.CreateFPToSI(value, type);
  // The instructions of x86 do that already. Constants are folded by LLVM, which leaves such cases undefined.
  if (target.arch == target::Arch::kX86_64 && !llvm::isa<llvm::Constant>(value)) return converted;
  const double limit = scalar->isIntegerTy(32) ? 0x1p31 : 0x1p63;
  Value* above = scalar->isIntegerTy(32) && value->getType()->getScalarType()->isDoubleTy()
                     ? b.CreateFCmpOGT(value, float_number(value, -limit - 1))
                     : b.CreateFCmpOGE(value, float_number(value, -limit));
  Value* fits = b.CreateAnd(above, b.CreateFCmpOLT(value, float_number(value, limit)));
  const llvm::APInt smallest = llvm::APInt::getSignedMinValue(scalar->getIntegerBitWidth());
  return b.CreateSelect(fits, converted, llvm::ConstantInt::get(type, smallest));
}

// For values below 2^64. Those in the upper half of the range are converted without their top bit, which is added
// again.
Value* to_u64(Ir& b, const Target& target, Value* value) {
  Value* limit = float_number(value, 0x1p63);
  Value* large = b.CreateAnd(b.CreateFCmpOGE(value, limit), b.CreateFCmpOLT(value, float_number(value, 0x1p64)));
  Value* low = to_signed(b, target, b.CreateSelect(large, b.CreateFSub(value, limit), value), b.getInt64Ty());
  Value* top = llvm::ConstantInt::get(low->getType(), uint64_t{1} << 63);
  return b.CreateSelect(large, b.CreateXor(low, top), low);
}

Value* float_to_integer(Ir& b, const Target& target, Value* value, DType to) {
  if (to == DType::kU64) return to_u64(b, target, value);
  const bool through_i32 = loop::is_signed_integer(to) && to != DType::kI64;
  Value* wide = to_signed(b, target, value, through_i32 ? b.getInt32Ty() : b.getInt64Ty());
  return b.CreateTrunc(wide, in_lanes(memory_type(b.getContext(), to), lanes_of(value)));
}

// `to` is f32, f64 or an integer, `from` neither kBool nor a small float.
Value* cast_plain(Ir& b, const Target& target, Value* value, DType from, DType to) {
  Type* type = in_lanes(memory_type(b.getContext(), to), lanes_of(value));
  if (is_floating(from)) {
    if (!is_floating(to)) return float_to_integer(b, target, value, to);
    return to == DType::kF64 ? b.CreateFPExt(value, type) : b.CreateFPTrunc(value, type);
  }
  if (is_floating(to)) return loop::is_signed_integer(from) ? b.CreateSIToFP(value, type) : b.CreateUIToFP(value, type);
  return b.CreateIntCast(value, type, loop::is_signed_integer(from));
}

Value* cast_to_bool(Ir& b, const Target& target, Value* value, DType from) {
  if (is_small_float(from)) value = widen_float(b, target, value, from);
  if (is_floating(from)) return b.CreateFCmpUNE(value, llvm::Constant::getNullValue(value->getType()));
  return b.CreateIsNotNull(value);
}

}  // namespace

Value* emit_cast(Ir& b, const Target& target, Value* value, DType from, DType to) {
  if (from == to) return value;
  if (to == DType::kBool) return cast_to_bool(b, target, value, from);
  if (from == DType::kBool) {
    Type* type = in_lanes(b.getInt32Ty(), lanes_of(value));
    if (!is_floating(to)) return b.CreateZExtOrTrunc(value, in_lanes(memory_type(b.getContext(), to), lanes_of(value)));
    return emit_cast(b, target, b.CreateZExt(value, type), DType::kI32, to);
  }
  if (is_small_float(from)) return emit_cast(b, target, widen_float(b, target, value, from), DType::kF32, to);
  if (is_small_float(to)) {
    if (from != DType::kF32) value = cast_plain(b, target, value, from, DType::kF32);
    return narrow_float(b, target, value, to);
  }
  return cast_plain(b, target, value, from, to);
}

// f16, bf16 and the 8-bit floats, by integer arithmetic where the target has no instruction.

namespace {

enum class Specials : uint8_t {
  kIeee,      // infinities and NaN have the largest exponent
  kFinite,    // NaN is all ones; numbers that are too large become the largest number
  kUnsigned,  // NaN has the bits of -0; no infinities
};

struct Format {
  int bits;
  int mantissa;  // bits
  int bias;
  uint32_t overflow;  // f32 magnitudes from these bits on are too large
  Specials specials;
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kF16: return {16, 10, 15, 143U << 23, Specials::kIeee};
    case DType::kF8E5M2: return {8, 2, 15, 143U << 23, Specials::kIeee};
    case DType::kF8E4M3FN: return {8, 3, 7, 1087U << 20, Specials::kFinite};
    case DType::kF8E4M3FNUZ: return {8, 3, 8, 135U << 23, Specials::kUnsigned};
    case DType::kF8E5M2FNUZ: return {8, 2, 16, 143U << 23, Specials::kUnsigned};
    default: NG_CHECK(false, "no small float: ", name_of(dtype));
  }
}

// Arithmetic on i32, scalar or in lanes.
class Bits {
 public:
  Bits(Ir& b, int lanes) : b_(b), lanes_(lanes) {}
  Value* operator()(uint32_t n) const { return splat(b_, b_.getInt32(n), lanes_); }
  Value* as_float(Value* bits) const { return b_.CreateBitCast(bits, in_lanes(b_.getFloatTy(), lanes_)); }
  Value* of_float(Value* value) const { return b_.CreateBitCast(value, in_lanes(b_.getInt32Ty(), lanes_)); }
  Value* wide(Value* bits) const { return b_.CreateZExt(bits, in_lanes(b_.getInt32Ty(), lanes_)); }
  Value* narrow(Value* bits, int width) const {
    return b_.CreateTrunc(bits, in_lanes(b_.getIntNTy(static_cast<unsigned>(width)), lanes_));
  }

 private:
  Ir& b_;
  int lanes_;
};

constexpr uint32_t kInfinity = 255U << 23;
constexpr uint32_t kNan = 0x7fc00000;

Value* widen_format(Ir& b, const Bits& bits, Value* wide, const Format& f) {
  const uint32_t sign_bit = 1U << (f.bits - 1);
  const auto rebias = static_cast<uint32_t>(127 - f.bias) << 23;
  const uint32_t smallest = rebias + (1U << 23);  // the smallest normal number, as f32
  Value* sign = b.CreateShl(b.CreateAnd(wide, bits(sign_bit)), bits(static_cast<uint32_t>(32 - f.bits)));
  Value* magnitude = b.CreateAnd(wide, bits(sign_bit - 1));
  Value* shifted = b.CreateShl(magnitude, bits(static_cast<uint32_t>(23 - f.mantissa)));
  Value* normal = b.CreateAdd(shifted, bits(rebias));
  // Denormals: the fraction is put below the smallest normal number, which is then subtracted.
  Value* lifted = bits.as_float(b.CreateAdd(shifted, bits(smallest)));
  Value* denormal = bits.of_float(b.CreateFSub(lifted, bits.as_float(bits(smallest))));
  Value* is_denormal = b.CreateICmpULT(magnitude, bits(1U << f.mantissa));
  Value* out = b.CreateSelect(is_denormal, denormal, normal);
  const uint32_t largest_exponent = (sign_bit - 1) >> f.mantissa << f.mantissa;
  if (f.specials == Specials::kIeee) {
    Value* special = b.CreateICmpUGE(magnitude, bits(largest_exponent));
    out = b.CreateSelect(special, b.CreateOr(shifted, bits(kInfinity)), out);
  }
  if (f.specials == Specials::kFinite)
    out = b.CreateSelect(b.CreateICmpEQ(magnitude, bits(sign_bit - 1)), bits(kNan), out);
  out = b.CreateOr(out, sign);
  if (f.specials == Specials::kUnsigned) out = b.CreateSelect(b.CreateICmpEQ(wide, bits(sign_bit)), bits(kNan), out);
  return bits.as_float(out);
}

Value* narrow_format(Ir& b, const Bits& bits, Value* value, const Format& f) {
  const auto rebias = static_cast<uint32_t>(f.bias - 127) << 23;
  const uint32_t smallest = static_cast<uint32_t>(128 - f.bias) << 23;
  const uint32_t aligner = static_cast<uint32_t>(127 + 24 - f.bias - f.mantissa) << 23;
  const int dropped = 23 - f.mantissa;
  Value* all = bits.of_float(value);
  Value* sign = b.CreateLShr(b.CreateAnd(all, bits(1U << 31)), bits(static_cast<uint32_t>(32 - f.bits)));
  Value* magnitude = b.CreateAnd(all, bits(0x7fffffff));
  // Denormals: an addition to a number whose last bit is that of the format rounds to nearest even.
  Value* aligned = b.CreateFAdd(bits.as_float(magnitude), bits.as_float(bits(aligner)));
  Value* denormal = b.CreateSub(bits.of_float(aligned), bits(aligner));
  Value* odd = b.CreateAnd(b.CreateLShr(magnitude, bits(static_cast<uint32_t>(dropped))), bits(1));
  Value* rounded = b.CreateAdd(b.CreateAdd(magnitude, bits(rebias + (1U << (dropped - 1)) - 1)), odd);
  Value* normal = b.CreateLShr(rounded, bits(static_cast<uint32_t>(dropped)));
  Value* out = b.CreateSelect(b.CreateICmpULT(magnitude, bits(smallest)), denormal, normal);
  Value* overflows = b.CreateICmpUGE(magnitude, bits(f.overflow));
  const uint32_t all_ones = (1U << (f.bits - 1)) - 1;
  if (f.specials == Specials::kUnsigned) {
    // Neither zero nor NaN has a sign.
    Value* with_sign = b.CreateOr(out, sign);
    out = b.CreateSelect(b.CreateICmpEQ(out, bits(0)), bits(0), with_sign);
    return b.CreateSelect(overflows, bits(all_ones + 1), out);
  }
  const uint32_t most = f.specials == Specials::kIeee ? all_ones >> f.mantissa << f.mantissa : all_ones - 1;
  out = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, out, bits(most));
  Value* beyond = b.CreateSelect(b.CreateICmpUGT(magnitude, bits(kInfinity)), bits(all_ones), bits(most));
  return b.CreateOr(b.CreateSelect(overflows, beyond, out), sign);
}

// Rounds to nearest even by carrying into the upper half; the carry must not turn a NaN into something else.
Value* narrow_bf16(Ir& b, const Bits& bits, Value* value) {
  Value* all = bits.of_float(value);
  Value* odd = b.CreateAnd(b.CreateLShr(all, bits(16)), bits(1));
  Value* rounded = b.CreateAdd(b.CreateAdd(all, bits(0x7fff)), odd);
  Value* nan = b.CreateOr(all, bits(kNan));
  return b.CreateLShr(b.CreateSelect(b.CreateFCmpUNO(value, value), nan, rounded), bits(16));
}

// e8m0 holds only powers of two: 2^(bits - 127), NaN for 255. Narrowing loses the sign.
Value* widen_e8m0(Ir& b, const Bits& bits, Value* wide) {
  Value* power = b.CreateSelect(b.CreateICmpEQ(wide, bits(0)), bits(1U << 22), b.CreateShl(wide, bits(23)));
  return bits.as_float(b.CreateSelect(b.CreateICmpEQ(wide, bits(255)), bits(kNan), power));
}

Value* narrow_e8m0(Ir& b, const Bits& bits, Value* value) {
  Value* all = b.CreateAnd(bits.of_float(value), bits(0x7fffffff));
  Value* exponent = b.CreateLShr(all, bits(23));
  Value* fraction = b.CreateAnd(all, bits((1U << 23) - 1));
  // Ties round up, except for denormals.
  Value* up = b.CreateOr(b.CreateICmpUGT(fraction, bits(1U << 22)),
                         b.CreateAnd(b.CreateICmpEQ(fraction, bits(1U << 22)), b.CreateICmpNE(exponent, bits(0))));
  Value* rounded = b.CreateAdd(exponent, bits.wide(up));
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, rounded, bits(255));
}

}  // namespace

Value* widen_float(Ir& b, const Target& target, Value* value, DType from) {
  const int lanes = lanes_of(value);
  const Bits bits(b, lanes);
  if (from == DType::kBF16) return bits.as_float(b.CreateShl(bits.wide(value), bits(16)));
  if (from == DType::kF16 && target.f16c) {
    Value* half = b.CreateBitCast(value, in_lanes(b.getHalfTy(), lanes));
    return b.CreateFPExt(half, in_lanes(b.getFloatTy(), lanes));
  }
  if (from == DType::kF8E8M0FNU) return widen_e8m0(b, bits, bits.wide(value));
  return widen_format(b, bits, bits.wide(value), format_of(from));
}

Value* narrow_float(Ir& b, const Target& target, Value* value, DType to) {
  const int lanes = lanes_of(value);
  const Bits bits(b, lanes);
  if (to == DType::kBF16) return bits.narrow(narrow_bf16(b, bits, value), 16);
  if (to == DType::kF16 && target.f16c) {
    Value* half = b.CreateFPTrunc(value, in_lanes(b.getHalfTy(), lanes));
    return b.CreateBitCast(half, in_lanes(b.getInt16Ty(), lanes));
  }
  if (to == DType::kF8E8M0FNU) return bits.narrow(narrow_e8m0(b, bits, value), 8);
  const Format format = format_of(to);
  return bits.narrow(narrow_format(b, bits, value, format), format.bits);
}

}  // namespace npugraph::codegen
