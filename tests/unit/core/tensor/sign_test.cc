// SPDX-License-Identifier: Apache-2.0
#include "tensor/sign.h"

#include <gtest/gtest.h>

#include "tensor/expr.h"

namespace npugraph {
namespace {

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
