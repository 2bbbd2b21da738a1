// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/operators.h"

#include "base/error.h"
#include "codegen/emit/casts.h"
#include "codegen/emit/divide.h"
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

}  // namespace npugraph::codegen
