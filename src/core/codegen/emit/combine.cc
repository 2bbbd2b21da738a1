// SPDX-License-Identifier: Apache-2.0
#include "codegen/emit/combine.h"

#include <limits>

#include "base/error.h"
#include "codegen/emit/operators.h"

namespace npugraph::codegen {

using llvm::Value;
using loop::Combine;

namespace {

llvm::Constant* limit_of(Ir& b, bool largest, DType dtype) {
  llvm::Type* type = register_type(b.getContext(), dtype);
  if (type->isFloatingPointTy()) return llvm::ConstantFP::getInfinity(type, !largest);
  const unsigned bits = type->getIntegerBitWidth();
  if (is_unsigned(dtype))
    return llvm::ConstantInt::get(type, largest ? llvm::APInt::getMaxValue(bits) : llvm::APInt::getMinValue(bits));
  return llvm::ConstantInt::get(type,
                                largest ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getSignedMinValue(bits));
}

bool is_nan_possible(DType dtype) { return is_floating(dtype); }

// Whether y replaces x by value alone; a NaN replaces any other value.
Value* is_more_extreme(Ir& b, Combine combine, DType dtype, Value* x, Value* y) {
  Value* beyond =
      emit_operator(b, {}, combine == Combine::kMin ? loop::Op::kLt : loop::Op::kGt, {y, x}, dtype, DType::kBool);
  if (!is_nan_possible(dtype)) return beyond;
  return b.CreateOr(beyond, b.CreateAnd(b.CreateFCmpUNO(y, y), b.CreateFCmpORD(x, x)));
}

}  // namespace

llvm::Constant* identity_of(Ir& b, Combine combine, DType dtype) {
  llvm::Type* type = register_type(b.getContext(), dtype);
  switch (combine) {
    case Combine::kSum:
    case Combine::kOr: return llvm::Constant::getNullValue(type);
    case Combine::kProduct: return number(b.getContext(), dtype, 1);
    case Combine::kMin: return limit_of(b, true, dtype);
    case Combine::kMax: return limit_of(b, false, dtype);
    case Combine::kAnd: return llvm::Constant::getAllOnesValue(type);
  }
  NG_CHECK(false, "combination ", static_cast<int>(combine));
}

Value* emit_combine(Ir& b, Combine combine, DType dtype, Value* x, Value* y) {
  const bool floats = is_floating(dtype);
  switch (combine) {
    case Combine::kSum: return floats ? b.CreateFAdd(x, y) : b.CreateAdd(x, y);
    case Combine::kProduct: return floats ? b.CreateFMul(x, y) : b.CreateMul(x, y);
    case Combine::kMin:
    case Combine::kMax: return emit_extreme(b, combine == Combine::kMin, x, y, dtype);
    case Combine::kAnd: return b.CreateAnd(x, y);
    case Combine::kOr: return b.CreateOr(x, y);
  }
  NG_CHECK(false, "combination ", static_cast<int>(combine));
}

Value* combine_lanes(Ir& b, Combine combine, DType dtype, Value* value) {
  for (int lanes = lanes_of(value); lanes > 1; lanes /= 2)
    value = emit_combine(b, combine, dtype, lanes_between(b, value, 0, lanes / 2),
                         lanes_between(b, value, lanes / 2, lanes / 2));
  return is_vector(value) ? b.CreateExtractElement(value, uint64_t{0}) : value;
}

Value* prefix_lanes(Ir& b, Combine combine, DType dtype, Value* value) {
  const int lanes = lanes_of(value);
  Value* neutral = splat(b, identity_of(b, combine, dtype), lanes);
  for (int distance = 1; distance < lanes; distance *= 2) {
    // Lanes below `distance` take the identity: lanes of the second operand are numbered from `lanes` on.
    llvm::SmallVector<int, 64> picks;
    for (int lane = 0; lane < lanes; ++lane) picks.push_back(lane < distance ? lanes + lane : lane - distance);
    value = emit_combine(b, combine, dtype, b.CreateShuffleVector(value, neutral, picks), value);
  }
  return value;
}

Extreme combine_extremes(Ir& b, Combine combine, DType dtype, const Extreme& x, const Extreme& y) {
  Value* replaces = is_more_extreme(b, combine, dtype, x.value, y.value);
  Value* keeps = is_more_extreme(b, combine, dtype, y.value, x.value);
  Value* tie = b.CreateNot(b.CreateOr(replaces, keeps));
  Value* earlier = b.CreateAnd(tie, b.CreateICmpSLT(y.index, x.index));
  Value* second = b.CreateOr(replaces, earlier);
  return {b.CreateSelect(second, y.value, x.value), b.CreateSelect(second, y.index, x.index)};
}

Extreme with_later(Ir& b, Combine combine, DType dtype, const Extreme& x, const Extreme& later) {
  Value* replaces = is_more_extreme(b, combine, dtype, x.value, later.value);
  return {b.CreateSelect(replaces, later.value, x.value), b.CreateSelect(replaces, later.index, x.index)};
}

Extreme combine_lanes(Ir& b, Combine combine, DType dtype, Extreme extreme) {
  for (int lanes = lanes_of(extreme.value); lanes > 1; lanes /= 2) {
    const int half = lanes / 2;
    const Extreme low = {lanes_between(b, extreme.value, 0, half), lanes_between(b, extreme.index, 0, half)};
    const Extreme high = {lanes_between(b, extreme.value, half, half), lanes_between(b, extreme.index, half, half)};
    extreme = combine_extremes(b, combine, dtype, low, high);
  }
  if (!is_vector(extreme.value)) return extreme;
  return {b.CreateExtractElement(extreme.value, uint64_t{0}), b.CreateExtractElement(extreme.index, uint64_t{0})};
}

}  // namespace npugraph::codegen
