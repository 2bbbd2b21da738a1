// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tensor/expr_test_util.h"
#include "tensor/lexer.h"

namespace npugraph {
namespace {

TEST(ExprText, PrintsInNormalForm) {
  EXPECT_EQ(normal("1 + 4*s0"), "4*s0 + 1");
  EXPECT_EQ(normal("-s0 - 1"), "-s0 - 1");
  EXPECT_EQ(normal("s10 + s2 + s2*s10"), "s2*s10 + s2 + s10");
  EXPECT_EQ(normal("s0 - 3*s1"), "s0 - 3*s1");
  EXPECT_EQ(normal("f0 - f1*f2"), "f0 - f1*f2");
  EXPECT_EQ(normal("f0 - (f1 - 1)"), "f0 - (f1 - 1.0)");
  EXPECT_EQ(normal("-(f0*f1)"), "-(f0*f1)");
  EXPECT_EQ(normal("-f0*f1"), "-f0*f1");
  EXPECT_EQ(normal("f0*(f1*f2)*(f0 + f1)"), "f0*(f1*f2)*(f0 + f1)");
}

TEST(ExprText, NumbersKeepKindAndBits) {
  EXPECT_EQ(normal("1.0"), "1.0");
  EXPECT_EQ(normal("100000000000000000000.0"), "1e+20");
  EXPECT_EQ(normal("0.1"), "0.1");
  EXPECT_EQ(normal("-0.0"), "-0.0");
  EXPECT_EQ(normal("-inf"), "-inf");
  EXPECT_EQ(normal("nan"), "nan");
  EXPECT_EQ(normal("-nan"), "nan");
  EXPECT_EQ(normal("5e-324"), "5e-324");
  EXPECT_EQ(normal("true"), "true");
  EXPECT_EQ(normal("9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(normal("-9223372036854775808"), "-9223372036854775808");
}

TEST(ExprText, RoundTrips) {
  const char* texts[] = {
      "s0 + -9223372036854775808",
      "-9223372036854775808*s0 + 1",
      "s1 + -9223372036854775808*s0",
      "f0 - 0.0",
      "f0 + -3.0*f1",
      "f0 - -3.0*f1",
      "3.0*-f0",
      "f0 - to_float(-s0)",
      "where(and(b0, not(b1)), ceildiv(s0, s1), bitxor(s0, 3))",
      "round(sqrt(exp(log(log2(sin(cos(tan(tanh(f0)))))))))",
      "pow(s0, s1)*shl(s0, s1)*shr(s1, s0)",
      "min(f0, inf, nan)",
      "or(lt(f0, 1.5), le(s0, s1), ne(b0, b1), eq(s0, 4))",
      "floordiv(1, 0) + mod(s0, 0)",
      "abs(neg(f0)) + to_int(b0)",
      "pow(s0, -1)",
      "trunc(f0) + floor(f0) + ceil(f0)",
      "truediv(s0, s1)",
  };
  for (const char* text : texts) {
    const Expr e = expr(text);
    EXPECT_EQ(expr(e.str()), e) << text << " prints as " << e.str();
  }
}

TEST(ExprText, ErrorsNameThePlace) {
  auto error = [](const char* text) { return error_of([&] { expr(text); }); };
  EXPECT_EQ(error("s0 +"), "expression:1:5: expected an expression, found the end of the text");
  EXPECT_EQ(error("s0 s1"), "expression:1:4: expected the end of the expression, found 's1'");
  EXPECT_EQ(error("foo(s0)"), "expression:1:1: unknown function 'foo'");
  EXPECT_EQ(error("1 +\n  max(s0"), "expression:2:9: expected ')', found the end of the text");
  EXPECT_EQ(error("2 * shl(1.5, 2)"), "expression:1:5: shl takes integers, got 1.5");
  EXPECT_EQ(error("max()"), "expression:1:1: max takes at least 1 argument, got 0");
  EXPECT_EQ(error("9223372036854775808"), "expression:1:1: the integer 9223372036854775808 does not fit 64 bits");
  EXPECT_EQ(error("1 + -9223372036854775809"), "expression:1:5: the integer -9223372036854775809 does not fit 64 bits");
  EXPECT_EQ(error("1e999"), "expression:1:1: the number 1e999 does not fit a 64-bit float");
  EXPECT_EQ(error("none"), "expression:1:1: expected an expression, found 'none'");
  EXPECT_EQ(error("\"s0\""), "expression:1:1: expected an expression, found \"s0\"");
  EXPECT_EQ(error("4611686018427387904*s0*4"),
            "expression:1:1: a coefficient of (4611686018427387904*s0) * (4) does not fit 64 bits");
}

TEST(ExprText, UnknownSymbolsAreTheBusinessOfTheCaller) {
  auto refuse = [](std::string_view name) -> ScalarKind { throw UserError(cat("no symbol ", name)); };
  EXPECT_EQ(error_of([&] { parse_expr("1 + s9", refuse); }), "no symbol s9");
}

TEST(ExprText, NestingIsLimited) {
  auto nested = [](int levels, std::string_view open, std::string_view close) {
    std::string text;
    for (int i = 0; i < levels; ++i) text += open;
    text += "s0";
    for (int i = 0; i < levels; ++i) text += close;
    return text;
  };
  EXPECT_EQ(expr(nested(kMaxExprDepth - 1, "(", ")")), expr("s0"));
  for (int levels : {kMaxExprDepth, 100'000}) {
    EXPECT_NE(error_of([&] { expr(nested(levels, "(", ")")); }).find("nests deeper than 200"), std::string::npos);
    EXPECT_NE(error_of([&] { expr(nested(levels, "-", "")); }).find("nests deeper than 200"), std::string::npos);
    EXPECT_NE(error_of([&] { expr(nested(levels, "abs(", ")")); }).find("nests deeper than 200"), std::string::npos);
  }
}

TEST(ExprText, ParsesOutOfALargerText) {
  Lexer lexer("[s0 + 1, 2*s0]", "test");
  const ParseContext context{kind_of, {}};
  lexer.expect("[");
  EXPECT_EQ(parse_expr(lexer, context).str(), "s0 + 1");
  lexer.expect(",");
  EXPECT_EQ(parse_expr(lexer, context).str(), "2*s0");
  lexer.expect("]");
}

}  // namespace
}  // namespace npugraph
