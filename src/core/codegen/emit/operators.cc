// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/operators.h"

#include "base/error.h"
#include "codegen/emit/casts.h"
#include "codegen/math/math.h"
#include "loop/op.h"

namespace npugraph::codegen {

namespace {

using llvm::ArrayRef;
using llvm::Value;
using llvm::Intrinsic::ID;
using loop::Op;
using target::Target;

Value* like(Value* value, double n) {
  llvm::Type* type = value->getType();
  if (type->isFPOrFPVectorTy()) return llvm::ConstantFP::get(type, n);
  return llvm::ConstantInt::getSigned(type, static_cast<int64_t>(n));
}

Value* emit_negation(Ir& b, Value* x) { return x->getType()->isFPOrFPVectorTy() ? b.CreateFNeg(x) : b.CreateNeg(x); }

Value* emit_absolute(Ir& b, Value* x, DType dtype) {
  if (is_floating(dtype)) return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x);
  if (is_unsigned(dtype)) return x;
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x, b.getFalse());
}

Value* emit_sign(Ir& b, Value* x, DType dtype) {
  Value* zero = like(x, 0);
  if (!is_floating(dtype)) {
    Value* positive =
        b.CreateSelect(is_unsigned(dtype) ? b.CreateICmpNE(x, zero) : b.CreateICmpSGT(x, zero), like(x, 1), zero);
    return is_unsigned(dtype) ? positive : b.CreateSelect(b.CreateICmpSLT(x, zero), like(x, -1), positive);
  }
  Value* sign = b.CreateSelect(b.CreateFCmpOGT(x, zero), like(x, 1), zero);
  sign = b.CreateSelect(b.CreateFCmpOLT(x, zero), like(x, -1), sign);
  return b.CreateSelect(b.CreateFCmpUNO(x, x), x, sign);
}

Value* emit_shift(Ir& b, Op op, Value* x, Value* amount, DType dtype) {
  const unsigned width = x->getType()->getScalarSizeInBits();
  // As an unsigned number a negative amount is too large as well.
  Value* fits = b.CreateICmpULT(amount, like(amount, width));
  if (op == Op::kShiftLeft)
    return b.CreateSelect(fits, b.CreateShl(x, b.CreateSelect(fits, amount, like(amount, 0))), like(x, 0));
  Value* most = b.CreateSelect(fits, amount, like(amount, width - 1));
  if (!is_unsigned(dtype)) return b.CreateAShr(x, most);
  return b.CreateSelect(fits, b.CreateLShr(x, most), like(x, 0));
}

Value* emit_comparison(Ir& b, Op op, Value* x, Value* y, DType dtype) {
  using P = llvm::CmpInst::Predicate;
  struct Row {
    Op op;
    P floats, integers, unsigned_integers;
  };
  static constexpr Row kRows[] = {
      {Op::kEq, P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {Op::kNe, P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {Op::kLt, P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {Op::kLe, P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {Op::kGt, P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {Op::kGe, P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
  };
  for (const Row& row : kRows)
    if (row.op == op)
      return b.CreateCmp(is_floating(dtype)   ? row.floats
                         : is_unsigned(dtype) ? row.unsigned_integers
                                              : row.integers,
                         x, y);
  NG_CHECK(false, "no comparison");
}

// The intrinsic of an operator that is one intrinsic on floats; not_intrinsic for others.
ID float_intrinsic(Op op) {
  switch (op) {
    case Op::kSqrt: return llvm::Intrinsic::sqrt;
    case Op::kFloor: return llvm::Intrinsic::floor;
    case Op::kCeil: return llvm::Intrinsic::ceil;
    case Op::kTrunc: return llvm::Intrinsic::trunc;
    case Op::kRound: return llvm::Intrinsic::roundeven;
    default: return llvm::Intrinsic::not_intrinsic;
  }
}

Value* emit_binary(Ir& b, Op op, Value* x, Value* y, DType dtype) {
  const bool floats = is_floating(dtype);
  switch (op) {
    case Op::kAdd: return floats ? b.CreateFAdd(x, y) : b.CreateAdd(x, y);
    case Op::kSub: return floats ? b.CreateFSub(x, y) : b.CreateSub(x, y);
    case Op::kMul: return floats ? b.CreateFMul(x, y) : b.CreateMul(x, y);
    case Op::kDiv: return b.CreateFDiv(x, y);
    case Op::kMin:
    case Op::kMax: return emit_extreme(b, op == Op::kMin, x, y, dtype);
    case Op::kBitAnd: return b.CreateAnd(x, y);
    case Op::kBitOr: return b.CreateOr(x, y);
    case Op::kBitXor: return b.CreateXor(x, y);
    case Op::kShiftLeft:
    case Op::kShiftRight: return emit_shift(b, op, x, y, dtype);
    default: return emit_comparison(b, op, x, y, dtype);
  }
}

}  // namespace

bool is_unsigned(DType dtype) { return is_integral(dtype) && !loop::is_signed_integer(dtype); }

bool divides_integers(Op op, DType dtype) {
  const bool divides = op == Op::kFmod || op == Op::kFloorMod || op == Op::kTruncDiv || op == Op::kFloorDiv;
  return divides && is_integral(dtype);
}

Value* emit_extreme(Ir& b, bool smaller, Value* x, Value* y, DType dtype) {
  if (!is_floating(dtype)) {
    const ID of_signed = smaller ? llvm::Intrinsic::smin : llvm::Intrinsic::smax;
    const ID of_unsigned = smaller ? llvm::Intrinsic::umin : llvm::Intrinsic::umax;
    return b.CreateBinaryIntrinsic(is_unsigned(dtype) ? of_unsigned : of_signed, x, y);
  }
  // minps and maxps give y if either is NaN.
  Value* first = smaller ? b.CreateFCmpOLT(x, y) : b.CreateFCmpOGT(x, y);
  return b.CreateSelect(b.CreateFCmpUNO(x, x), x, b.CreateSelect(first, x, y));
}

Value* emit_constant(Ir& b, const Target& target, const Scalar& value, DType dtype) {
  llvm::Type* type = register_type(b.getContext(), dtype);
  if (type->isFloatingPointTy()) return llvm::ConstantFP::get(type, value.as_float());
  if (dtype == DType::kBool) return b.getInt1(value.as_bool());
  if (!is_floating(dtype)) return llvm::ConstantInt::get(type, static_cast<uint64_t>(value.as_int()));
  Value* wide = llvm::ConstantFP::get(b.getFloatTy(), value.as_float());
  Target plain = target;
  plain.f16c = false;  // by integer arithmetic, most of which folds here
  return narrow_float(b, plain, wide, dtype);
}

Value* emit_operator(Ir& b, const Target& target, Op op, ArrayRef<Value*> args, DType from, DType to) {
  Value* x = args.front();
  if (divides_integers(op, from)) return divide_integers(b, op, x, args[1], from);
  if (op == Op::kFloorMod || op == Op::kTruncDiv || op == Op::kFloorDiv)
    return divide_floats(b, target, op, x, args[1]);
  if (is_math(op)) return emit_math(b, target, op, args);
  if (const ID id = float_intrinsic(op); id != llvm::Intrinsic::not_intrinsic) return b.CreateUnaryIntrinsic(id, x);
  switch (op) {
    case Op::kNeg: return emit_negation(b, x);
    case Op::kAbs: return emit_absolute(b, x, from);
    case Op::kSign: return emit_sign(b, x, from);
    case Op::kBitNot: return b.CreateNot(x);
    case Op::kIsNan: return b.CreateFCmpUNO(x, x);
    case Op::kSelect: return b.CreateSelect(x, args[1], args[2]);
    case Op::kCast: return emit_cast(b, target, x, from, to);
    case Op::kBitcast: return b.CreateBitCast(x, in_lanes(register_type(b.getContext(), to), lanes_of(x)));
    case Op::kFma:
      if (!target.fma) return b.CreateFAdd(b.CreateFMul(x, args[1]), args[2]);
      return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, args);
    default: return emit_binary(b, op, x, args[1], from);
  }
}

namespace {

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
