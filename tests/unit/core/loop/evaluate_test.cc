// SPDX-License-Identifier: Apache-2.0
// Single operators against their definitions.
#include "loop/evaluate.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "loop/op.h"

namespace npugraph::loop {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Bits bits(DType dtype, double number) {
  if (is_floating(dtype)) return constant_bits(dtype, Scalar::of_float(number));
  return constant_bits(dtype, Scalar::of_int(static_cast<int64_t>(number)));
}

double number(DType dtype, Bits value) {
  if (!is_floating(dtype)) return static_cast<double>(integer_value(dtype, value));
  const Bits wide = *evaluate(Op::kCast, {&dtype, 1}, {&value, 1}, DType::kF64);
  return std::bit_cast<double>(wide);
}

// The result of `op` on numbers of `dtype`, as a number.
double apply(Op op, DType dtype, std::vector<double> args) {
  std::vector<DType> types(args.size(), dtype);
  std::vector<Bits> values;
  for (const double arg : args) values.push_back(bits(dtype, arg));
  const DType result = *result_type(op, types);
  EXPECT_EQ(type_error(op, types, result), "");
  return number(result, *evaluate(op, types, values, result));
}

double cast(DType from, double x, DType to) {
  const Bits value = bits(from, x);
  return number(to, *evaluate(Op::kCast, {&from, 1}, {&value, 1}, to));
}

bool same(double a, double b) { return a == b ? std::signbit(a) == std::signbit(b) : std::isnan(a) && std::isnan(b); }

struct Case {
  Op op;
  DType dtype;
  std::vector<double> args;
  double expected;
};

void expect_all(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const double result = apply(c.op, c.dtype, c.args);
    EXPECT_TRUE(same(result, c.expected)) << info_of(c.op).name << " of " << name_of(c.dtype) << " " << c.args[0]
                                          << ", " << c.args.back() << " gives " << result << ", not " << c.expected;
  }
}

TEST(LoopEvaluate, IntegersWrap) {
  expect_all({
      {Op::kAdd, DType::kI8, {127, 1}, -128},
      {Op::kSub, DType::kU8, {0, 1}, 255},
      {Op::kMul, DType::kU16, {65535, 65535}, 1},
      {Op::kMul, DType::kI32, {2147483647, 2}, -2},
      {Op::kNeg, DType::kI8, {-128}, -128},
      {Op::kNeg, DType::kU8, {1}, 255},
      {Op::kAbs, DType::kI32, {-2147483648.0}, -2147483648.0},
      {Op::kAbs, DType::kU8, {200}, 200},
      {Op::kSign, DType::kI16, {-9}, -1},
      {Op::kBitNot, DType::kU8, {1}, 254},
      {Op::kBitXor, DType::kI8, {-1, 1}, -2},
      {Op::kMin, DType::kU8, {200, 3}, 3},
      {Op::kMax, DType::kI8, {-56, 3}, 3},
  });
}

TEST(LoopEvaluate, IntegerDivisionAndShifts) {
  expect_all({
      {Op::kTruncDiv, DType::kI32, {-7, 2}, -3},
      {Op::kFloorDiv, DType::kI32, {-7, 2}, -4},
      {Op::kFloorDiv, DType::kI32, {7, -2}, -4},
      {Op::kFmod, DType::kI32, {-7, 2}, -1},
      {Op::kFloorMod, DType::kI32, {-7, 2}, 1},
      {Op::kFloorMod, DType::kI32, {7, -2}, -1},
      {Op::kFloorMod, DType::kI32, {6, -2}, 0},
      {Op::kTruncDiv, DType::kI8, {-128, -1}, -128},
      {Op::kFloorMod, DType::kI8, {-128, -1}, 0},
      {Op::kFloorDiv, DType::kU8, {200, 7}, 28},
      {Op::kShiftLeft, DType::kI8, {65, 1}, -126},
      {Op::kShiftLeft, DType::kI8, {1, 8}, 0},
      {Op::kShiftLeft, DType::kI8, {1, -1}, 0},
      {Op::kShiftRight, DType::kI8, {-128, 3}, -16},
      {Op::kShiftRight, DType::kI8, {-5, 100}, -1},
      {Op::kShiftRight, DType::kI8, {5, -1}, 0},
      {Op::kShiftRight, DType::kU8, {200, 3}, 25},
      {Op::kShiftRight, DType::kU8, {200, 8}, 0},
  });
  const DType types[] = {DType::kI32, DType::kI32};
  const Bits args[] = {7, 0};
  EXPECT_FALSE(evaluate(Op::kFloorDiv, types, args, DType::kI32));
  EXPECT_FALSE(evaluate(Op::kFmod, types, args, DType::kI32));
}

TEST(LoopEvaluate, FloatsFollowIeeeAndPropagateNaN) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    expect_all({
        {Op::kMin, dtype, {1, kNaN}, kNaN},
        {Op::kMax, dtype, {kNaN, 1}, kNaN},
        {Op::kMax, dtype, {-kInfinity, 1}, 1},
        {Op::kSign, dtype, {kNaN}, kNaN},
        {Op::kSign, dtype, {-3}, -1},
        {Op::kAbs, dtype, {-0.0}, 0.0},
        {Op::kNeg, dtype, {0.0}, -0.0},
        {Op::kRound, dtype, {2.5}, 2},
        {Op::kRound, dtype, {-3.5}, -4},
        {Op::kTrunc, dtype, {-1.5}, -1},
        {Op::kDiv, dtype, {-1, 0}, -kInfinity},
        {Op::kReciprocal, dtype, {-kInfinity}, -0.0},
        {Op::kRsqrt, dtype, {4}, 0.5},
        {Op::kSigmoid, dtype, {0}, 0.5},
        {Op::kSigmoid, dtype, {-kInfinity}, 0},
        {Op::kFma, dtype, {3, 4, 5}, 17},
        {Op::kPow, dtype, {-2, 3}, -8},
        {Op::kFmod, dtype, {-7, 3}, -1},
        {Op::kFloorMod, dtype, {-7, 3}, 2},
        {Op::kFloorMod, dtype, {7, -3}, -2},
        {Op::kFloorMod, dtype, {1, 0}, kNaN},
        {Op::kFloorDiv, dtype, {-7, 2}, -4},
        {Op::kFloorDiv, dtype, {1, 0}, kInfinity},
        {Op::kFloorDiv, dtype, {-0.0, 2}, -0.0},
        {Op::kTruncDiv, dtype, {-7, 2}, -3},
        {Op::kIsNan, dtype, {kNaN}, 1},
        {Op::kIsNan, dtype, {kInfinity}, 0},
        {Op::kEq, dtype, {kNaN, kNaN}, 0},
        {Op::kNe, dtype, {kNaN, kNaN}, 1},
        {Op::kLe, dtype, {-0.0, 0.0}, 1},
        {Op::kGt, dtype, {2, 1}, 1},
    });
  }
  EXPECT_EQ(apply(Op::kExp, DType::kF32, {1}), static_cast<float>(std::exp(1.0)));
  EXPECT_EQ(apply(Op::kErf, DType::kF32, {0.5}), static_cast<float>(std::erf(0.5)));
  EXPECT_EQ(apply(Op::kAdd, DType::kF32, {1, 0x1p-24}), 1.0);
  // 1 / 0.1 is 10 after rounding, but ten tenths are more than 1.
  EXPECT_EQ(apply(Op::kFloorDiv, DType::kF64, {1, 0.1}), 9);
}

TEST(LoopEvaluate, Casts) {
  EXPECT_EQ(cast(DType::kF32, 1 + 0x1p-8, DType::kBF16), 1.0);
  EXPECT_EQ(cast(DType::kF32, 1 + 0x3p-8, DType::kBF16), 1 + 0x1p-6);
  EXPECT_EQ(cast(DType::kF32, 65520, DType::kF16), kInfinity);
  EXPECT_EQ(cast(DType::kF16, 0x1p-24, DType::kF64), 0x1p-24);
  EXPECT_EQ(cast(DType::kF64, 3.14159, DType::kF8E4M3FN), 3.25);
  EXPECT_EQ(cast(DType::kF8E5M2, 1.75, DType::kBF16), 1.75);
  EXPECT_EQ(cast(DType::kF32, -1.9, DType::kI32), -1);
  EXPECT_EQ(cast(DType::kF32, 300, DType::kI8), 44);
  EXPECT_EQ(cast(DType::kI64, 258, DType::kU8), 2);
  EXPECT_EQ(cast(DType::kI32, -1, DType::kI64), -1);
  EXPECT_EQ(cast(DType::kU32, 4294967295.0, DType::kF64), 4294967295.0);
  EXPECT_EQ(cast(DType::kI64, 16777217, DType::kF32), 16777216);
  EXPECT_EQ(cast(DType::kF32, kNaN, DType::kBool), 1);
  EXPECT_EQ(cast(DType::kF32, -0.0, DType::kBool), 0);
  EXPECT_EQ(cast(DType::kI16, 256, DType::kBool), 1);
  const DType from = DType::kF32;
  const Bits one = bits(from, 1);
  EXPECT_EQ(*evaluate(Op::kBitcast, {&from, 1}, {&one, 1}, DType::kI32), 0x3f800000u);
}

TEST(LoopEvaluate, BoolsAndSelect) {
  const DType bools[] = {DType::kBool, DType::kBool};
  const auto apply_bools = [&](Op op, Bits a, Bits b) {
    const Bits args[] = {a, b};
    const size_t arity = info_of(op).arity;
    return *evaluate(op, {bools, arity}, {args, arity}, DType::kBool);
  };
  EXPECT_EQ(apply_bools(Op::kBitAnd, 1, 0), 0u);
  EXPECT_EQ(apply_bools(Op::kBitOr, 1, 0), 1u);
  EXPECT_EQ(apply_bools(Op::kBitXor, 1, 1), 0u);
  EXPECT_EQ(apply_bools(Op::kBitNot, 1, 0), 0u);
  EXPECT_EQ(apply_bools(Op::kLt, 0, 1), 1u);
  const DType types[] = {DType::kBool, DType::kBF16, DType::kBF16};
  const Bits args[] = {0, 7, 9};
  EXPECT_EQ(*evaluate(Op::kSelect, types, args, DType::kBF16), 9u);
}

TEST(LoopEvaluate, ConstantsRoundToTheirType) {
  EXPECT_EQ(constant_bits(DType::kBF16, Scalar::of_float(1.0)), 0x3f80u);
  EXPECT_EQ(constant_bits(DType::kU64, Scalar::of_int(-1)), UINT64_MAX);
  EXPECT_EQ(constant_number(DType::kF32, 0x3f800000u), Scalar::of_float(1.0));
  EXPECT_EQ(constant_number(DType::kI8, 0xff), Scalar::of_int(-1));
  EXPECT_FALSE(constant_number(DType::kF32, 0x7fc00000u));
}

}  // namespace
}  // namespace npugraph::loop
