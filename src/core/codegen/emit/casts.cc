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

}  // namespace npugraph::codegen
