// SPDX-License-Identifier: Apache-2.0
#include "loop/bounds.h"

#include <random>

#include <gtest/gtest.h>

#include "base/error.h"

namespace npugraph::loop {
namespace {

Expr expr_of(std::string_view text) {
  return parse_expr(text, [](std::string_view) { return ScalarKind::kInt; });
}

// i < m, j < n, k < 8, l < 4*p
class LoopBounds : public ::testing::Test {
 protected:
  LoopBounds() {
    bounds_.enter("i", expr_of("m"));
    bounds_.enter("j", expr_of("n"));
    bounds_.enter("k", 8);
    bounds_.enter("l", expr_of("4*p"));
  }
  std::string simplified(std::string_view text) const { return bounds_.simplify(expr_of(text)).str(); }
  Bounds bounds_;
};

TEST_F(LoopBounds, DivisionsOfFlattenedIndices) {
  EXPECT_EQ(simplified("floordiv(i*n + j, n)"), "i");
  EXPECT_EQ(simplified("mod(i*n + j, n)"), "j");
  EXPECT_EQ(simplified("floordiv(8*i + k, 8)"), "i");
  EXPECT_EQ(simplified("mod(8*i + k, 8)"), "k");
  EXPECT_EQ(simplified("floordiv((i*n + j)*8 + k, 8*n)"), "i");
  EXPECT_EQ(simplified("mod((i*n + j)*8 + k, 8*n)"), "8*j + k");
  EXPECT_EQ(simplified("floordiv(l, 4*p)"), "0");
  EXPECT_EQ(simplified("floordiv(mod(k, 4), 4)"), "0");
  EXPECT_EQ(simplified("floordiv(floordiv(k, 2), 4)"), "0");
  EXPECT_EQ(simplified("floordiv(8*i + k, 16)"), "floordiv(i, 2)");
}

TEST_F(LoopBounds, ExtremesAndComparisons) {
  EXPECT_EQ(simplified("min(j, n - 1)"), "j");
  EXPECT_EQ(simplified("max(i, 0)"), "i");
  EXPECT_EQ(simplified("min(k, 7, 9)"), "k");
  EXPECT_EQ(simplified("where(lt(j, n), i, j)"), "i");
  EXPECT_EQ(simplified("where(lt(j, 0), i, j)"), "j");
  EXPECT_EQ(simplified("where(le(n, j), i, j)"), "j");
}

TEST_F(LoopBounds, WhatIsNotProvenStays) {
  for (const std::string_view text : {"floordiv(i*n + j, m)", "mod(j + 1, n)", "mod(j - 1, n)", "floordiv(k + 1, 8)",
                                      "min(j, n - 2)", "floordiv(q, 8)", "mod(v3, 8)", "mod(j, q)",
                                      "floordiv(8*i + k + 1, 16)", "floordiv(-k, 8)", "min(i, j)", "mod(k, 7)"}) {
    const std::string before = expr_of(text).str();
    EXPECT_EQ(simplified(text), before);
  }
}

TEST_F(LoopBounds, Nonnegative) {
  EXPECT_TRUE(bounds_.is_nonnegative(expr_of("i*n + j")));
  EXPECT_TRUE(bounds_.is_nonnegative(expr_of("m*n - 1 - i*n - j")));
  EXPECT_TRUE(bounds_.is_nonnegative(expr_of("n - 1")));
  EXPECT_TRUE(bounds_.is_nonnegative(expr_of("p - 1")));
  EXPECT_FALSE(bounds_.is_nonnegative(expr_of("n - 2")));
  EXPECT_FALSE(bounds_.is_nonnegative(expr_of("q")));
  EXPECT_FALSE(bounds_.is_nonnegative(expr_of("j - i")));
  EXPECT_FALSE(bounds_.is_nonnegative(expr_of("q*j")));
}

// Random expressions keep their value at every point.
TEST(LoopBoundsRandom, SimplifiedExpressionsAreEqual) {
  std::mt19937 random(1);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  int changed = 0;
  for (int round = 0; round < 3000; ++round) {
    const int64_t m = 1 + below(4), n = 1 + below(5);
    Bounds bounds;
    bounds.enter("i", expr_of("m"));
    bounds.enter("j", below(2) == 0 ? expr_of("n") : expr_of("2*n"));
    bounds.enter("k", 4);
    const auto make = [&](const auto& self, int depth) -> Expr {
      const std::string_view leaves[] = {"i", "j", "k", "n", "m", "i*n + j", "4*i + k", "8*j + 2*k"};
      if (depth == 0) return expr_of(leaves[below(8)]);
      const Expr a = self(self, depth - 1);
      const Expr divisors[] = {expr_of("n"), 2, 4, expr_of("2*n"), 8, expr_of("m")};
      switch (below(6)) {
        case 0: return Expr::make(ExprOp::kFloorDiv, {a, divisors[below(6)]});
        case 1: return Expr::make(ExprOp::kMod, {a, divisors[below(6)]});
        case 2: return Expr::make(ExprOp::kMin, {a, self(self, depth - 1)});
        case 3: return a + self(self, depth - 1);
        case 4: return a * (below(5) - 2);
        default:
          return Expr::make(ExprOp::kWhere,
                            {Expr::make(ExprOp::kLt, {a, divisors[below(6)]}), a, self(self, depth - 1)});
      }
    };
    const Expr e = make(make, 1 + static_cast<int>(below(3)));
    const Expr s = bounds.simplify(e);
    if (s == e) continue;
    ++changed;
    for (int point = 0; point < 20; ++point) {
      const int64_t i = below(static_cast<uint32_t>(m)), j = below(static_cast<uint32_t>(n)), k = below(4);
      const auto value = [&](const std::string& name) {
        return Scalar::of_int(name == "i" ? i : name == "j" ? j : name == "k" ? k : name == "m" ? m : n);
      };
      ASSERT_EQ(evaluate(e, value).i, evaluate(s, value).i) << e.str() << " became " << s.str();
    }
  }
  EXPECT_GT(changed, 300);
}

}  // namespace
}  // namespace npugraph::loop
