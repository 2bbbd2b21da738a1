// SPDX-License-Identifier: Apache-2.0
// Which kernels compute their result slice by slice.
#include "loop/slices.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "loop/text.h"

namespace npugraph::loop {
namespace {

// A kernel of one loop over 6 iterations with this body.
std::optional<Slices> slices_of(const std::string& body, const std::string& buffers = "") {
  return find_slices(parse(cat("npugraph.loop 1 @k {\n  in x : f32\n  out y : f32\n", buffers,
                               "  parallel for i < 6 grain 1 {\n", body, "  }\n}\n"),
                           "test"));
}

TEST(Slices, AreWhatAnIterationStores) {
  const auto slices = slices_of("vector for j < 4 {\n%0 : f32 = load x[4*i + j]\nstore y[4*i + j] = %0\n}\n");
  ASSERT_TRUE(slices);
  EXPECT_EQ(slices->result, 1u);
  EXPECT_EQ(slices->iterations, 6);
  EXPECT_EQ(slices->each, 4);
  EXPECT_EQ(slices->elements(), 24);
}

TEST(Slices, HaveLoopsInside) {
  const auto slices =
      slices_of("for g < 2 {\n%0 : f32 = load x[2*i + g]\nvector for j < 4 {\nstore y[8*i + 4*g + j] = %0\n}\n}\n");
  ASSERT_TRUE(slices);
  EXPECT_EQ(slices->each, 8);
}

TEST(Slices, ArePartsOfRows) {
  const auto slices =
      slices_of("vector for j < 4 {\n%0 : f32 = load x[j]\nstore y[j + 8*floordiv(i, 2) + 4*mod(i, 2)] = %0\n}\n");
  ASSERT_TRUE(slices);
  EXPECT_EQ(slices->each, 4);
  EXPECT_FALSE(
      slices_of("vector for j < 4 {\n%0 : f32 = load x[j]\nstore y[j + 8*floordiv(i, 2) + 8*mod(i, 2)] = %0\n}\n"));
}

TEST(Slices, DoNotLieAcrossEachOther) {
  EXPECT_FALSE(
      slices_of("vector for j < 4 {\n%0 : f32 = load x[4*i + j]\nstore y[4*i + floordiv(i, 2) + j] = %0\n}\n"));
}

TEST(Slices, AreOfOneResult) {
  EXPECT_FALSE(slices_of("%0 : f32 = load x[i]\nstore y[i] = %0\nstore z[i] = %0\n", "  out z : f32\n"));
}

TEST(Slices, NeedNoMemoryOfTheirOwn) {
  EXPECT_FALSE(slices_of("%0 : f32 = load x[i]\nstore t[0] = %0\n%1 : f32 = load t[0]\nstore y[i] = %1\n",
                         "  local t : f32[1]\n"));
}

TEST(Slices, CannotFail) {
  EXPECT_FALSE(slices_of(
      "%0 : f32 = load x[i]\n%1 : f32 = constant 0.0\n%2 : bool = gt %0, %1\ncheck %2, \"no\"\nstore y[i] = %0\n"));
}

TEST(Slices, HaveConstantSizes) {
  EXPECT_FALSE(
      find_slices(parse("npugraph.loop 1 @k {\n  scalar n : int\n  in x : f32\n  out y : f32\n"
                        "  parallel for i < n grain 1 {\n%0 : f32 = load x[i]\nstore y[i] = %0\n  }\n}\n",
                        "test")));
}

}  // namespace
}  // namespace npugraph::loop
