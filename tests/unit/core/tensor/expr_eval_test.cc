// SPDX-License-Identifier: Apache-2.0
// Applies operators to symbols, so that evaluation is tested instead of folding. Folding is compared with evaluation.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tensor/expr_test_util.h"

namespace npugraph {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

int64_t of_ints(std::string_view function, int64_t a, int64_t b) {
  Scalar symbolic = value(cat(function, "(s0, s1)"), {{"s0", Scalar::of_int(a)}, {"s1", Scalar::of_int(b)}});
  EXPECT_EQ(value(cat(function, "(", a, ", ", b, ")")), symbolic) << function << " of " << a << " and " << b;
  return symbolic.i;
}

double of_floats(std::string_view function, double a, double b) {
  return value(cat(function, "(f0, f1)"), {{"f0", Scalar::of_float(a)}, {"f1", Scalar::of_float(b)}}).f;
}

Scalar of_float(std::string_view function, double a) {
  return value(cat(function, "(f0)"), {{"f0", Scalar::of_float(a)}});
}

std::string int_error(std::string_view text, int64_t a, int64_t b) {
  return error_of([&] { value(text, {{"s0", Scalar::of_int(a)}, {"s1", Scalar::of_int(b)}}); });
}

TEST(ExprEval, IntegerDivisionFollowsPython) {
  EXPECT_EQ(of_ints("floordiv", 7, 2), 3);
  EXPECT_EQ(of_ints("floordiv", -7, 2), -4);
  EXPECT_EQ(of_ints("floordiv", 7, -2), -4);
  EXPECT_EQ(of_ints("floordiv", -7, -2), 3);
  EXPECT_EQ(of_ints("mod", -7, 2), 1);
  EXPECT_EQ(of_ints("mod", 7, -2), -1);
  EXPECT_EQ(of_ints("mod", kMin, -1), 0);
  EXPECT_EQ(of_ints("ceildiv", 7, 2), 4);
  EXPECT_EQ(of_ints("ceildiv", -7, 2), -3);
  EXPECT_EQ(of_ints("ceildiv", 7, -2), -3);
  EXPECT_EQ(of_ints("floordiv", 5, kMin), -1);
  EXPECT_EQ(of_ints("mod", 5, kMin), kMin + 5);
  EXPECT_EQ(of_ints("ceildiv", 5, kMin), 0);
}

TEST(ExprEval, IntegerOperators) {
  EXPECT_EQ(of_ints("min", -3, 4), -3);
  EXPECT_EQ(of_ints("max", -3, 4), 4);
  EXPECT_EQ(of_ints("pow", -2, 63), kMin);
  EXPECT_EQ(of_ints("pow", 0, 0), 1);
  EXPECT_EQ(of_ints("pow", -1, kMax), -1);
  EXPECT_EQ(of_ints("shl", -1, 63), kMin);
  EXPECT_EQ(of_ints("shl", 0, 100), 0);
  EXPECT_EQ(of_ints("shr", -5, 1), -3);
  EXPECT_EQ(of_ints("shr", -5, 100), -1);
  EXPECT_EQ(of_ints("bitand", 12, 10), 8);
  EXPECT_EQ(of_ints("bitor", 12, 10), 14);
  EXPECT_EQ(of_ints("bitxor", 12, 10), 6);
  EXPECT_EQ(value("abs(s0)", {{"s0", Scalar::of_int(-4)}}).i, 4);
}

TEST(ExprEval, FloatDivisionFollowsPython) {
  EXPECT_EQ(of_floats("floordiv", -7.5, 2.0), -4.0);
  EXPECT_EQ(of_floats("mod", -7.5, 2.0), 0.5);
  EXPECT_EQ(of_floats("mod", 7.5, -2.0), -0.5);
  EXPECT_EQ(of_floats("floordiv", 1.0, 0.1), 9.0);
  EXPECT_TRUE(std::signbit(of_floats("mod", 4.0, -2.0)));
  EXPECT_EQ(of_floats("truediv", 1.0, 4.0), 0.25);
  EXPECT_EQ(value("truediv(s0, 4)", {{"s0", Scalar::of_int(1)}}).f, 0.25);
}

TEST(ExprEval, RoundingGivesIntegers) {
  EXPECT_EQ(of_float("round", 0.5), Scalar::of_int(0));
  EXPECT_EQ(of_float("round", 1.5), Scalar::of_int(2));
  EXPECT_EQ(of_float("round", -2.5), Scalar::of_int(-2));
  EXPECT_EQ(of_float("round", 2.6), Scalar::of_int(3));
  EXPECT_EQ(of_float("floor", -1.5), Scalar::of_int(-2));
  EXPECT_EQ(of_float("ceil", -1.5), Scalar::of_int(-1));
  EXPECT_EQ(of_float("trunc", -1.5), Scalar::of_int(-1));
  EXPECT_EQ(of_float("to_int", 1.9), Scalar::of_int(1));
  EXPECT_NE(error_of([] { of_float("floor", INFINITY); }).find("does not fit a 64-bit integer"), std::string::npos);
  EXPECT_NE(error_of([] { of_float("to_int", 0x1p63); }).find("does not fit a 64-bit integer"), std::string::npos);
  EXPECT_EQ(of_float("to_int", -0x1p63), Scalar::of_int(kMin));
}

TEST(ExprEval, FloatFunctionsFollowIeee) {
  EXPECT_EQ(of_float("sqrt", 9.0), Scalar::of_float(3.0));
  EXPECT_TRUE(std::isnan(of_float("sqrt", -1.0).f));
  EXPECT_EQ(of_float("log", 0.0).f, -INFINITY);
  EXPECT_EQ(of_float("log2", 8.0).f, 3.0);
  EXPECT_EQ(of_float("exp", 0.0).f, 1.0);
  EXPECT_EQ(of_float("tanh", INFINITY).f, 1.0);
  EXPECT_DOUBLE_EQ(of_float("sin", 1.0).f, std::sin(1.0));
  EXPECT_DOUBLE_EQ(of_float("cos", 1.0).f, std::cos(1.0));
  EXPECT_DOUBLE_EQ(of_float("tan", 1.0).f, std::tan(1.0));
  EXPECT_EQ(of_float("abs", -0.0), Scalar::of_float(0.0));
  EXPECT_EQ(of_floats("pow", 2.0, -1.0), 0.5);
  EXPECT_EQ(of_floats("min", 2.0, -1.0), -1.0);
}

TEST(ExprEval, OverflowIsAnError) {
  EXPECT_EQ(int_error("s0 + s1", kMax, 1), "integer overflow in s0 + s1");
  EXPECT_EQ(int_error("s0*s1", kMin, -1), "integer overflow in s0*s1");
  EXPECT_EQ(int_error("floordiv(s0, s1)", kMin, -1), "integer overflow in floordiv(s0, s1)");
  EXPECT_EQ(int_error("abs(s0)", kMin, 0), "integer overflow in abs(s0)");
  EXPECT_EQ(int_error("pow(s0, s1)", 2, 63), "integer overflow in pow(s0, s1)");
  EXPECT_EQ(int_error("pow(s0, s1)", 3, 64), "integer overflow in pow(s0, s1)");
  EXPECT_EQ(int_error("shl(s0, s1)", 1, 63), "integer overflow in shl(s0, s1)");
  EXPECT_EQ(int_error("shl(s0, s1)", 1, kMax), "integer overflow in shl(s0, s1)");
  EXPECT_EQ(int_error("-s0", kMin, 0), "integer overflow in -s0");
}

TEST(ExprEval, OnlyTheResultDecidesAboutOverflow) {
  EXPECT_EQ(
      value("s0 + s1 - s2", {{"s0", Scalar::of_int(kMax)}, {"s1", Scalar::of_int(5)}, {"s2", Scalar::of_int(6)}}).i,
      kMax - 1);
  EXPECT_EQ(value("s0*s1*s2", {{"s0", Scalar::of_int(kMax)}, {"s1", Scalar::of_int(5)}, {"s2", Scalar::of_int(0)}}).i,
            0);
}

TEST(ExprEval, InvalidArgumentsAreErrors) {
  EXPECT_EQ(int_error("floordiv(s0, s1)", 1, 0), "division by zero in floordiv(s0, s1)");
  EXPECT_EQ(int_error("mod(s0, s1)", 1, 0), "division by zero in mod(s0, s1)");
  EXPECT_EQ(int_error("ceildiv(s0, s1)", 1, 0), "division by zero in ceildiv(s0, s1)");
  EXPECT_EQ(int_error("pow(s0, s1)", 2, -1), "negative exponent of an integer power in pow(s0, s1)");
  EXPECT_EQ(int_error("shl(s0, s1)", 2, -1), "negative shift count in shl(s0, s1)");
  EXPECT_EQ(int_error("shr(s0, s1)", 2, -1), "negative shift count in shr(s0, s1)");
  EXPECT_EQ(error_of([] { value("floordiv(1, 0)"); }), "division by zero in floordiv(1, 0)");
  EXPECT_EQ(error_of([] { of_floats("truediv", 1.0, 0.0); }), "division by zero in truediv(f0, f1)");
  EXPECT_EQ(error_of([] { of_floats("mod", 1.0, 0.0); }), "division by zero in mod(f0, f1)");
  EXPECT_EQ(error_of([] { value("s7 + 1"); }), "unknown symbol s7");
  EXPECT_EQ(error_of([] { value("s0", {{"s0", Scalar::of_float(1)}}); }), "the value of symbol s0 has the wrong kind");
}

TEST(ExprEval, OnlyDecidingArgumentsAreEvaluated) {
  const Values zero = {{"s0", Scalar::of_int(0)}};
  EXPECT_EQ(value("where(ne(s0, 0), floordiv(4, s0), 7)", zero).i, 7);
  EXPECT_FALSE(value("and(ne(s0, 0), eq(floordiv(4, s0), 2))", zero).as_bool());
  EXPECT_TRUE(value("or(eq(s0, 0), eq(floordiv(4, s0), 2))", zero).as_bool());
}

TEST(ExprEval, ComparisonsWithNan) {
  const Values nan = {{"f0", Scalar::of_float(NAN)}};
  EXPECT_FALSE(value("eq(f0, f0)", nan).as_bool());
  EXPECT_TRUE(value("ne(f0, f0)", nan).as_bool());
  EXPECT_FALSE(value("lt(f0, 1.0)", nan).as_bool());
  EXPECT_FALSE(value("le(f0, 1.0)", nan).as_bool());
}

}  // namespace
}  // namespace npugraph
