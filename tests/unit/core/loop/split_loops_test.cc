// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/error.h"
#include "loop/random_kernel.h"
#include "loop/simplify.h"
#include "loop/text.h"

namespace npugraph::loop {
namespace {

constexpr std::string_view kThreeBuffers = "npugraph.loop 1 @k {\n  in x : f32\n  in w : f32\n  out y : f32\n";

// Splits the loops of a kernel with the buffers of kThreeBuffers for vectors of 16, and simplifies it. Returns the new
// body, empty if no loop is split.
std::string cut(std::string_view body) {
  Kernel kernel = parse(cat(kThreeBuffers, body, "\n}\n"), "test");
  if (!split_loops(kernel, 16)) return "";
  EXPECT_EQ(verify(kernel), "");
  simplify(kernel);
  EXPECT_EQ(verify(kernel), "");
  const std::string text = print(kernel);
  return text.substr(kThreeBuffers.size(), text.size() - kThreeBuffers.size() - 2);
}

// The body of a loop that stores two halves: elements before `at` come from x, the others from w.
std::string halves(std::string_view loop, std::string_view at, std::string_view end = "}") {
  return cat("%0 : f32 = constant 0.0 ", loop, " { %1 : i64 = index i %2 : i64 = index ", at,
             " %3 : bool = lt %1, %2 %4 : bool = ge %1, %2 %5 : f32 = load x[i] where %3 else %0 ",
             "%6 : f32 = load w[i - 64] where %4 else %0 %7 : f32 = select %3, %5, %6 store y[i] = %7 ", end);
}

TEST(SplitLoops, PartsHaveNoMasks) {
  EXPECT_EQ(cut(halves("vector for i < 160", "64")),
            "  vector for i < 64 {\n"
            "    %0 : f32 = load x[i]\n"
            "    store y[i] = %0\n"
            "  }\n"
            "  vector for i_64 < 96 {\n"
            "    %1 : f32 = load w[i_64]\n"
            "    store y[i_64 + 64] = %1\n"
            "  }\n");
}

TEST(SplitLoops, AllComparisonsOfTheVariable) {
  EXPECT_NE(cut("vector for i < 64 { %0 : i64 = index i %1 : i64 = index 15 %2 : bool = gt %0, %1 %3 : f32 = load x[i] "
                "store y[i] = %3 where %2 }"),
            "");
  EXPECT_NE(cut("vector for i < 64 { %0 : i64 = index i %1 : i64 = constant 32 %2 : bool = gt %1, %0 "
                "%3 : f32 = load x[i] store y[i] = %3 where %2 }"),
            "");
}

TEST(SplitLoops, LeavesOthersAlone) {
  EXPECT_EQ(cut(halves("vector for i < 160", "60")), "") << "not whole vectors";
  EXPECT_EQ(cut(halves("vector for i < 160", "0")), "") << "no second part";
  EXPECT_EQ(cut(halves("vector for i < 160", "160")), "") << "no second part";
  EXPECT_EQ(cut(halves("for i < 160", "64")), "") << "no vectors";
  EXPECT_EQ(cut(halves("vector for i < 160", "64", "} reduce(%8 : f32 = sum %7)")), "") << "order of a sum";
  EXPECT_EQ(cut("vector for i < 64 { %0 : i64 = index 2*i %1 : i64 = index 32 %2 : bool = lt %0, %1 "
                "%3 : f32 = load x[i] store y[i] = %3 where %2 }"),
            "")
      << "another expression";
}

TEST(SplitLoops, RandomKernelsKeepTheirMeaning) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    testing::RandomCase expected = testing::random_case(seed, {.failures = false});
    testing::RandomCase got = expected;
    split_loops(got.kernel, 1);
    ASSERT_EQ(verify(got.kernel), "") << seed;
    ASSERT_EQ(testing::interpret(expected), "");
    ASSERT_EQ(testing::interpret(got), "");
    ASSERT_EQ(testing::difference(expected, got), "") << seed << "\n" << print(expected.kernel);
  }
}

}  // namespace
}  // namespace npugraph::loop
