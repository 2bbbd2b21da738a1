// SPDX-License-Identifier: Apache-2.0
#include "tensor/expr.h"

#include <cmath>
#include <limits>
#include <unordered_set>

#include <gtest/gtest.h>

#include "tensor/expr_test_util.h"

namespace npugraph {

namespace {

TEST(Expr, DefaultIsTheIntegerZero) {
  Expr e;
  EXPECT_TRUE(e.is_constant());
  EXPECT_TRUE(e.is_int(0));
  EXPECT_EQ(e.as_int(), 0);
  EXPECT_EQ(e.kind(), ScalarKind::kInt);
  EXPECT_TRUE(e.args().empty());
}

TEST(Expr, PolynomiallyEqualSizesAreEqual) {
  const char* pairs[][2] = {
      {"s0 + s1", "s1 + s0"},
      {"s0 + s0", "2*s0"},
      {"(s0 + 1)*(s1 - 2)", "s0*s1 - 2 + s1 - 2*s0"},
      {"(s0 + s1)*(s0 - s1)", "s0*s0 - s1*s1"},
      {"4*(s0*(s1*3))", "s1*12*s0"},
      {"pow(s0 + 1, 3)", "s0*s0*s0 + 3*s0*s0 + 3*s0 + 1"},
      {"s0 - s0", "0"},
      {"-(s0 - s1)", "s1 - s0"},
      {"shl(s0, 3)", "8*s0"},
      {"shr(s0, 2)", "floordiv(s0, 4)"},
      {"ceildiv(s0, 64)", "floordiv(s0 + 63, 64)"},
      {"max(s0, 8)*2", "2*max(8, s0)"},
      {"b0 + b0", "2*to_int(b0)"},
  };
  for (const auto& [a, b] : pairs) {
    EXPECT_EQ(expr(a), expr(b)) << a << " and " << b;
    EXPECT_EQ(expr(a).hash(), expr(b).hash()) << a << " and " << b;
  }
}

TEST(Expr, DifferentSizesDiffer) {
  std::unordered_set<Expr, ExprHash> all = {expr("s0"), expr("s1"),  expr("s0 + 1"), expr("2*s0"),  expr("s0*s0"),
                                            expr("0"),  expr("0.0"), expr("-0.0"),   expr("false"), expr("f0")};
  EXPECT_EQ(all.size(), 10u);
  EXPECT_NE(Expr::symbol("s", ScalarKind::kInt), Expr::symbol("s", ScalarKind::kFloat));
}

TEST(Expr, ExactDivisionsSimplify) {
  EXPECT_EQ(normal("floordiv(64*s0, 64)"), "s0");
  EXPECT_EQ(normal("mod(64*s0, 64)"), "0");
  EXPECT_EQ(normal("floordiv(64*s0*s1, 16*s1)"), "4*s0");
  EXPECT_EQ(normal("floordiv((s0 + 1)*s1*64, s0 + 1)"), "64*s1");
  EXPECT_EQ(normal("mod((s0 + 1)*(s1 - 2), s1 - 2)"), "0");
  EXPECT_EQ(normal("ceildiv(s0*s1, s1)"), "s0");
  EXPECT_EQ(normal("floordiv(s0, -1)"), "-s0");
  EXPECT_EQ(normal("mod(s0, 1)"), "0");
}

TEST(Expr, InexactDivisionsBecomeCanonical) {
  EXPECT_EQ(normal("floordiv(s0 + 130, 64)"), "floordiv(s0 + 2, 64) + 2");
  EXPECT_EQ(normal("floordiv(64*s0 + s1, 64)"), "s0 + floordiv(s1, 64)");
  EXPECT_EQ(normal("floordiv(2*s0 + 7, 4)"), "floordiv(s0 + 1, 2) + 1");
  EXPECT_EQ(normal("floordiv(floordiv(s0, 4), 8)"), "floordiv(s0, 32)");
  EXPECT_EQ(normal("floordiv(floordiv(s0 + 1, 2) + 1, 2)"), "floordiv(s0 + 3, 4)");
  EXPECT_EQ(normal("floordiv(floordiv(s0, 3) - 1, 2)"), "floordiv(s0 + 3, 6) - 1");
  EXPECT_EQ(normal("floordiv(floordiv(s0, -3) + 1, 2)"), "floordiv(-s0 + 3, 6)");
  EXPECT_EQ(normal("floordiv(s0*s1, s0*s2)"), "floordiv(s1, s2)");
  EXPECT_EQ(normal("mod(65*s0 + 130, 64)"), "mod(s0 + 2, 64)");
  EXPECT_EQ(normal("mod(2*s0 + 7, 4)"), "2*mod(s0 + 1, 2) + 1");
  EXPECT_EQ(normal("mod(s0*s1 + s2, s1)"), "mod(s2, s1)");
}

TEST(Expr, MinMaxFold) {
  EXPECT_EQ(normal("max(s0, max(3, s0, 5))"), "max(5, s0)");
  EXPECT_EQ(normal("min(s0, s0 + 1)"), "s0");
  EXPECT_EQ(normal("max(s0 - 1, s0, s1)"), "max(s0, s1)");
  EXPECT_EQ(normal("max(s0, -9223372036854775807)"), "max(-9223372036854775807, s0)");
  EXPECT_EQ(normal("min(4, 2, 3)"), "2");
  EXPECT_EQ(normal("min(f0, f0)"), "f0");
}

TEST(Expr, ComparisonsFold) {
  EXPECT_EQ(normal("eq(s0 + 1, 1 + s0)"), "true");
  EXPECT_EQ(normal("lt(s0, s0 + 1)"), "true");
  EXPECT_EQ(normal("le(s0 + 1, s0)"), "false");
  EXPECT_EQ(normal("ne(2*s0, 2*s0 + 3)"), "true");
  EXPECT_EQ(normal("eq(s1, s0)"), "eq(s0, s1)");
  EXPECT_EQ(normal("eq(b0, b0)"), "true");
  EXPECT_EQ(normal("eq(f0, f0)"), "eq(f0, f0)");  // a NaN differs from itself
  EXPECT_EQ(normal("lt(1, 1.5)"), "true");
}

TEST(Expr, BooleansFold) {
  EXPECT_EQ(normal("and(b0, true, b0)"), "b0");
  EXPECT_EQ(normal("and(b0, false)"), "false");
  EXPECT_EQ(normal("or(b0, or(b1, b0))"), "or(b0, b1)");
  EXPECT_EQ(normal("not(not(b0))"), "b0");
  EXPECT_EQ(normal("not(eq(s0, 1))"), "ne(1, s0)");
  EXPECT_EQ(normal("not(lt(s0, s1))"), "le(s1, s0)");
  EXPECT_EQ(normal("not(lt(f0, f1))"), "not(lt(f0, f1))");
  EXPECT_EQ(normal("bitxor(b0, b0)"), "false");
  EXPECT_EQ(normal("bitor(s0, s0)"), "s0");
}

TEST(Expr, WhereFolds) {
  EXPECT_EQ(normal("where(true, s0, s1)"), "s0");
  EXPECT_EQ(normal("where(b0, s0, s0)"), "s0");
  EXPECT_EQ(normal("where(lt(s0, s0), 1, 2.5)"), "2.5");
  EXPECT_EQ(expr("where(b0, 1, f0)").kind(), ScalarKind::kFloat);
}

TEST(Expr, FloatsAreNotReassociated) {
  EXPECT_NE(expr("(f0 + f1) + f2"), expr("f0 + (f1 + f2)"));
  EXPECT_NE(expr("f0 + f1"), expr("f1 + f0"));
  EXPECT_EQ(normal("1.0 + 2.0 + f0"), "3.0 + f0");
  EXPECT_EQ(normal("f0 + 1.0 + 2.0"), "f0 + 1.0 + 2.0");
  EXPECT_EQ(normal("f0*0.0"), "f0*0.0");
}

TEST(Expr, KindsOfResults) {
  EXPECT_EQ(expr("b0 + b1").kind(), ScalarKind::kInt);
  EXPECT_EQ(expr("s0 + f0").kind(), ScalarKind::kFloat);
  EXPECT_EQ(expr("truediv(s0, 2)").kind(), ScalarKind::kFloat);
  EXPECT_EQ(expr("floor(f0)").kind(), ScalarKind::kInt);
  EXPECT_EQ(expr("bitand(b0, b1)").kind(), ScalarKind::kBool);
  EXPECT_EQ(expr("bitand(b0, s0)").kind(), ScalarKind::kInt);
  EXPECT_EQ(expr("floordiv(f0, 2)").kind(), ScalarKind::kFloat);
  EXPECT_EQ(expr("lt(f0, s0)").kind(), ScalarKind::kBool);
}

TEST(Expr, WrongArgumentsAreErrors) {
  EXPECT_EQ(error_of([] { Expr::make(ExprOp::kFloorDiv, {Expr(1)}); }), "floordiv takes 2 arguments, got 1");
  EXPECT_EQ(error_of([] { Expr::make(ExprOp::kMin, {}); }), "min takes at least 1 argument, got 0");
  EXPECT_EQ(error_of([] { Expr::make(ExprOp::kShiftLeft, {expr("f0"), 2}); }), "shl takes integers, got f0");
  EXPECT_EQ(error_of([] { Expr::make(ExprOp::kAnd, {expr("s0")}); }), "and takes booleans, got s0");
  EXPECT_EQ(error_of([] { Expr::make(ExprOp::kWhere, {1, 2, 3}); }), "where takes a boolean as its condition, got 1");
  EXPECT_THROW(Expr::make(ExprOp::kSymbol, {}), InternalError);
}

TEST(Expr, SymbolNamesAreChecked) {
  for (const char* name : {"s0", "_x", "u.1", "zuf0"}) EXPECT_EQ(Expr::symbol(name).symbol_name(), name);
  for (const char* name : {"", "0s", "s-1", "true", "nan", "none", "s 0"}) EXPECT_THROW(Expr::symbol(name), UserError);
}

TEST(Expr, CoefficientsThatDoNotFitTogetherStayApart) {
  const Expr big = expr("4611686018427387904*s0");
  EXPECT_EQ((big + big).str(), "4611686018427387904*s0 + 4611686018427387904*s0");
  EXPECT_EQ(big + big - big, big);
  EXPECT_EQ(value(big + big, {{"s0", Scalar::of_int(-1)}}).i, INT64_MIN);
}

TEST(Expr, CoefficientOverflowIsAnError) {
  EXPECT_EQ(error_of([] { expr("4611686018427387904*s0") * expr("4*s1"); }),
            "a coefficient of (4611686018427387904*s0) * (4*s1) does not fit 64 bits");
}

TEST(Expr, LargeProductsStayProducts) {
  Expr a = 0;
  Expr b = 0;
  for (int i = 0; i < 20; ++i) {
    a = a + Expr::symbol(cat("a", i));
    b = b + Expr::symbol(cat("c", i));
  }
  const Expr product = a * b;
  EXPECT_EQ(product, b * a);
  EXPECT_EQ(expr(product.str()), product);
  EXPECT_EQ(expr((3 * product + 1).str()), 3 * product + 1);
  EXPECT_EQ((product - product).str(), "0");
  EXPECT_EQ(Expr::make(ExprOp::kFloorDiv, {6 * product, 2 * product}), Expr(3));
  Values ones;
  for (int i = 0; i < 20; ++i) ones[cat("a", i)] = ones[cat("c", i)] = Scalar::of_int(1);
  EXPECT_EQ(value(product, ones).i, 400);
}

TEST(Expr, DepthAndSizeAreLimited) {
  Expr deep = expr("s0");
  auto deepen = [&] {
    for (int i = 0; i < 2 * kMaxExprDepth; ++i) deep = Expr::make(ExprOp::kFloorDiv, {deep + i, Expr::symbol("s1")});
  };
  EXPECT_NE(error_of(deepen).find("nests deeper than 200 levels"), std::string::npos);
  EXPECT_EQ(expr(deep.str()), deep);

  Expr wide = expr("s0");
  auto widen = [&] {
    for (int i = 0; i < 60; ++i) wide = Expr::make(ExprOp::kPow, {Expr::make(ExprOp::kAbs, {wide}), wide});
  };
  EXPECT_NE(error_of(widen).find("more than 100000 parts"), std::string::npos);
}

TEST(Expr, CollectsSymbolsOnceInOrder) {
  std::vector<std::string> names = {"s1"};
  collect_symbols(expr("max(s2, s0*s1) + floordiv(s3, s2)"), names);
  EXPECT_EQ(names.size(), 4u);
  EXPECT_EQ(names[0], "s1");
  EXPECT_EQ(std::unordered_set<std::string>(names.begin(), names.end()).size(), 4u);
}

TEST(Expr, SubstitutionNormalises) {
  auto replace = [](const Expr& symbol) { return symbol.symbol_name() == "s0" ? expr("2*s1") : symbol; };
  EXPECT_EQ(substitute(expr("floordiv(s0, 2) + s1"), replace), expr("2*s1"));
  EXPECT_EQ(substitute(expr("s1 + 1"), replace), expr("s1 + 1"));
  auto zero = [](const Expr&) { return Expr(0); };
  EXPECT_EQ(substitute(expr("where(ne(s0, 0), floordiv(4, s0), 7)"), zero), Expr(7));
}

TEST(Scalar, ConvertsBetweenKinds) {
  EXPECT_EQ(Scalar::of_float(-2.7).as_int(), -2);
  EXPECT_EQ(Scalar::of_bool(true).as_int(), 1);
  EXPECT_EQ(Scalar::of_bool(true).as_float(), 1.0);
  EXPECT_FALSE(Scalar::of_float(0.0).as_bool());
  EXPECT_THROW(Scalar::of_float(NAN).as_int(), UserError);
  EXPECT_THROW(Scalar::of_float(1e300).as_int(), UserError);
}

TEST(Scalar, EqualityTellsKindsAndBitsApart) {
  EXPECT_EQ(Scalar::of_int(1), Scalar::of_int(1));
  EXPECT_FALSE(Scalar::of_int(1) == Scalar::of_bool(true));
  EXPECT_FALSE(Scalar::of_float(0.0) == Scalar::of_float(-0.0));
  EXPECT_EQ(Scalar::of_float(NAN), Scalar::of_float(NAN));
}

bool proves(std::string_view text) {
  return is_nonnegative(parse_expr(text, [](std::string_view) { return ScalarKind::kInt; }));
}

TEST(Sign, SizesAndWhatIsMadeOfThemAreNotNegative) {
  EXPECT_TRUE(proves("0"));
  EXPECT_TRUE(proves("3*s0 + s1"));
  EXPECT_TRUE(proves("floordiv(s0, 2)"));
  EXPECT_TRUE(proves("mod(s0, 3)"));
  EXPECT_TRUE(proves("mod(s0 - 5, s1)"));
  EXPECT_TRUE(proves("max(s0 - 5, 0)"));
}

TEST(Sign, SaysNoWhenItCannotTell) {
  EXPECT_FALSE(proves("-1"));
  EXPECT_FALSE(proves("s0 - 1"));
  EXPECT_FALSE(proves("mod(s0, s1 - 5)"));  // it has the sign of the divisor
  EXPECT_FALSE(proves("mod(s0, -3)"));
  EXPECT_FALSE(proves("min(s0, s0 - 1)"));
}

}  // namespace

}  // namespace npugraph
