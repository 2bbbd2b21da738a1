// SPDX-License-Identifier: Apache-2.0
#include "ir/bounds.h"

#include <gtest/gtest.h>

namespace npugraph::ir {
namespace {

const std::vector<Symbol> kSymbols = {{"s0", ScalarKind::kInt, 2, 1024},
                                      {"s1", ScalarKind::kInt, 0, INT64_MAX},
                                      {"u0", ScalarKind::kInt, INT64_MIN, INT64_MAX}};

bool proves(std::string_view text) {
  return is_nonnegative(parse_expr(text, [](std::string_view) { return ScalarKind::kInt; }), kSymbols);
}

TEST(Bounds, ProvesWhatTheBoundsOfSymbolsSay) {
  EXPECT_TRUE(proves("0"));
  EXPECT_TRUE(proves("s0 - 2"));
  EXPECT_TRUE(proves("s1"));
  EXPECT_TRUE(proves("64*s0 - 128"));
  EXPECT_TRUE(proves("1024 - s0"));
  EXPECT_TRUE(proves("s0*s1 + 3"));
  EXPECT_TRUE(proves("floordiv(s0, 2) - 1"));
  EXPECT_TRUE(proves("s0 - floordiv(s0, 2)"));
  EXPECT_TRUE(proves("2*s1 - 3*floordiv(s1, 2)"));
  EXPECT_TRUE(proves("s0 - floordiv(s0, 2) - floordiv(s0, 3)"));
  EXPECT_TRUE(proves("max(u0, 0)"));
  EXPECT_TRUE(proves("min(s0, s1)"));
}

TEST(Bounds, SaysNoWhenItCannotTell) {
  EXPECT_FALSE(proves("-1"));
  EXPECT_FALSE(proves("s0 - 3"));
  EXPECT_FALSE(proves("s1 - 1"));
  EXPECT_FALSE(proves("u0"));
  EXPECT_FALSE(proves("100 - s1"));
  EXPECT_FALSE(proves("min(s0, u0)"));
  EXPECT_FALSE(proves("s0 - s1"));
  EXPECT_FALSE(proves("s1 - 3*floordiv(s1, 2)"));
  EXPECT_FALSE(proves("s1 - floordiv(u0, 2)"));
  EXPECT_FALSE(proves("s1*9223372036854775807 - floordiv(s1, 2)"));
  EXPECT_FALSE(proves("unknown"));
  EXPECT_FALSE(proves("s1*9223372036854775807 - s1*s1"));
}

std::string simplified(std::string_view text) {
  return simplify(parse_expr(text, [](std::string_view) { return ScalarKind::kInt; }), kSymbols).str();
}

TEST(Bounds, SimplifyDropsOperandsThatAreNotTheResult) {
  EXPECT_EQ(simplified("min(2048, s0)"), "s0");
  EXPECT_EQ(simplified("min(s0, 1)"), "1");
  EXPECT_EQ(simplified("max(0, s1) + 1"), "s1 + 1");
  EXPECT_EQ(simplified("min(s0, s0 + s1)"), "s0");
  EXPECT_EQ(simplified("max(2, min(512, s0))"), "min(512, s0)");
  EXPECT_EQ(simplified("min(512, s0)"), "min(512, s0)");
  EXPECT_EQ(simplified("max(0, u0)"), "max(0, u0)");
}

bool told(std::string_view size) {
  return tells(parse_expr(size, [](std::string_view) { return ScalarKind::kInt; }), Expr::symbol("s0"));
}

TEST(Bounds, ASizeTellsASymbolThatItIs) {
  EXPECT_TRUE(told("s0"));
  EXPECT_TRUE(told("2 * floordiv(s0, 2)"));
  EXPECT_TRUE(told("8 * floordiv(s0, 8)"));
  EXPECT_FALSE(told("s1"));
  EXPECT_FALSE(told("2 * s0"));
  EXPECT_FALSE(told("floordiv(s0, 2)"));
  EXPECT_FALSE(told("4 * floordiv(s0, 2)"));
  EXPECT_FALSE(told("2 * floordiv(s1, 2)"));
  EXPECT_FALSE(told("2 * floordiv(s0, 2) + 1"));
}

}  // namespace
}  // namespace npugraph::ir
