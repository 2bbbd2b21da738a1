// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/divide.h"

#include "codegen/math/math.h"
#include "loop/op.h"

namespace npugraph::codegen {
namespace {

using llvm::Value;
using loop::Op;

Value* zero(Value* like) { return llvm::Constant::getNullValue(like->getType()); }

// The quotient rounded towards zero. For types of up to 32 bits, a floating-point division gives it exactly, for all
// lanes at once.
Value* truncated_quotient(Ir& b, Value* x, Value* y, DType dtype) {
  const int lanes = lanes_of(x);
  if (lanes > 0 && size_of(dtype) <= 4) {
    llvm::Type* wide = in_lanes(size_of(dtype) <= 2 ? b.getFloatTy() : b.getDoubleTy(), lanes);
    llvm::Type* whole = in_lanes(size_of(dtype) <= 2 ? b.getInt32Ty() : b.getInt64Ty(), lanes);
    const auto to_float = [&](Value* v) {
      return loop::is_signed_integer(dtype) ? b.CreateSIToFP(v, wide) : b.CreateUIToFP(v, wide);
    };
    return b.CreateTrunc(b.CreateFPToSI(b.CreateFDiv(to_float(x), to_float(y)), whole), x->getType());
  }
  return for_each_lane(b, {x, y}, x->getType()->getScalarType(), [&](llvm::ArrayRef<Value*> args) {
    return loop::is_signed_integer(dtype) ? b.CreateSDiv(args[0], args[1]) : b.CreateUDiv(args[0], args[1]);
  });
}

}  // namespace

Value* divide_integers(Ir& b, Op op, Value* x, Value* y, DType dtype) {
  Value* one = llvm::ConstantInt::get(y->getType(), 1);
  Value* unsafe = b.CreateICmpEQ(y, zero(y));
  Value* quotient;
  if (loop::is_signed_integer(dtype)) {
    // Dividing the smallest integer by -1 would trap.
    Value* minus = b.CreateICmpEQ(y, llvm::Constant::getAllOnesValue(y->getType()));
    Value* divisor = b.CreateSelect(b.CreateOr(unsafe, minus), one, y);
    quotient = b.CreateSelect(minus, b.CreateNeg(x), truncated_quotient(b, x, divisor, dtype));
  } else {
    quotient = truncated_quotient(b, x, b.CreateSelect(unsafe, one, y), dtype);
  }
  if (op == Op::kTruncDiv) return quotient;
  Value* remainder = b.CreateSub(x, b.CreateMul(quotient, y));
  if (op == Op::kFmod) return remainder;
  if (!loop::is_signed_integer(dtype)) return op == Op::kFloorDiv ? quotient : remainder;
  // The quotient is rounded up if the remainder and the divisor have different signs.
  Value* other_sign = b.CreateICmpSLT(b.CreateXor(remainder, y), zero(x));
  Value* too_large = b.CreateAnd(b.CreateICmpNE(remainder, zero(x)), other_sign);
  if (op == Op::kFloorDiv) return b.CreateSelect(too_large, b.CreateSub(quotient, one), quotient);
  return b.CreateSelect(too_large, b.CreateAdd(remainder, y), remainder);
}

Value* divide_floats(Ir& b, const target::Target& target, Op op, Value* x, Value* y) {
  const auto number = [&](double n) { return llvm::ConstantFP::get(x->getType(), n); };
  const auto copy_sign = [&](Value* to, Value* from) {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, to, from);
  };
  if (op == Op::kTruncDiv) return b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b.CreateFDiv(x, y));
  Value* remainder = emit_math(b, target, Op::kFmod, {x, y});
  Value* exact = b.CreateFCmpOEQ(remainder, number(0));
  Value* other_sign = b.CreateXor(b.CreateFCmpOLT(remainder, number(0)), b.CreateFCmpOLT(y, number(0)));
  Value* rounded_up = b.CreateAnd(b.CreateNot(exact), other_sign);
  if (op == Op::kFloorMod) {
    Value* moved = b.CreateSelect(rounded_up, b.CreateFAdd(remainder, y), remainder);
    return b.CreateSelect(exact, copy_sign(remainder, y), moved);
  }
  Value* quotient = b.CreateFDiv(b.CreateFSub(x, remainder), y);
  quotient = b.CreateSelect(rounded_up, b.CreateFSub(quotient, number(1)), quotient);
  Value* floored = b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, quotient);
  Value* closer = b.CreateFCmpOGT(b.CreateFSub(quotient, floored), number(0.5));
  floored = b.CreateSelect(closer, b.CreateFAdd(floored, number(1)), floored);
  Value* ratio = b.CreateFDiv(x, y);
  floored = b.CreateSelect(b.CreateFCmpOEQ(quotient, number(0)), copy_sign(number(0), ratio), floored);
  return b.CreateSelect(b.CreateFCmpOEQ(y, number(0)), ratio, floored);
}

Value* divide_by_scalar(Ir& b, Value* x, Value* y) {
  const int lanes = lanes_of(x);
  Value* one = llvm::ConstantFP::get(b.getDoubleTy(), 1);
  Value* reciprocal = splat(b, b.CreateFDiv(one, b.CreateFPExt(y, b.getDoubleTy())), lanes);
  Value* wide = b.CreateFPExt(x, in_lanes(b.getDoubleTy(), lanes));
  return b.CreateFPTrunc(b.CreateFMul(wide, reciprocal), x->getType());
}

}  // namespace npugraph::codegen
