// SPDX-License-Identifier: Apache-2.0
#include "program/window_fit.h"

#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "program/text.h"

namespace npugraph::program {
namespace {

// A Program whose task writes the window `window` of an arena buffer of `bytes` bytes, both in text form. `s0` and `s1`
// are sizes of an input, `k` is any number.
Program program_of(const std::string& bytes, const std::string& window) {
  return parse(cat(R"(npugraph.program 4 @windows {
  symbol s0 : int = size(0, 0)
  symbol s1 : int = size(0, 1)
  symbol k : int = input(1)
  buffer b0 input(0) live(0, 0)
  buffer b1 arena bytes()",
                   bytes, R"() live(0, 0)
  input 0 "L['x']" b0 : f32[s0, s1]{s1, 1}
  input 1 "L['k']" scalar
  task 0 kernel "copy" {
    read b0+0 : f32[s0, s1]{s1, 1}
    write b1+)",
                   window, R"(
    args(%0)
  }
  segment 1
})"),
               "test");
}

// A Program whose window never fits is refused: returns kNever then.
Fit fit(const std::string& bytes, const std::string& window) {
  try {
    const Program program = program_of(bytes, window);
    EXPECT_EQ(verify(program), "");
    return WindowFits(program).of(program.tasks[0].operands[1]);
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "test: task 0, operand 1: the window lies in buffer 1 for no sizes");
    return Fit::kNever;
  }
}

TEST(WindowFit, OfAWholeBuffer) {
  EXPECT_EQ(fit("4*s0*s1", "0 : f32[s0, s1]{s1, 1}"), Fit::kAlways);
  EXPECT_EQ(fit("4*s0*s1", "0 : f32[s0*s1]{1}"), Fit::kAlways);
  EXPECT_EQ(fit("4*s0*s1", "0 : f32[s1, s0]{1, s1}"), Fit::kAlways);
}

TEST(WindowFit, OfParts) {
  EXPECT_EQ(fit("4*s0*s1 + 28*s1", "0 : f32[s0, s1]{s1, 1}"), Fit::kAlways);
  EXPECT_EQ(fit("4*s0*s1 + 28*s1", "28*s1 : f32[s0, s1]{s1, 1}"), Fit::kAlways);
  EXPECT_EQ(fit("4*s0*s1", "4*s1 : f32[s0 - 1, s1]{s1, 1}"), Fit::kAlways) << "where it has elements, s0 is at least 2";
  EXPECT_EQ(fit("4*s0*s1", "0 : f32[s0, 1]{s1, 1}"), Fit::kUnknown) << "rows may have no elements";
}

// The window has more rows than its buffer, for all sizes.
TEST(WindowFit, OfMoreRowsThanThereAre) {
  EXPECT_EQ(fit("4*s0*s1", "0 : f32[s0 + 7, s1]{s1, 1}"), Fit::kNever);
  EXPECT_EQ(fit("4*s0*s1", "4*s1 : f32[s0, s1]{s1, 1}"), Fit::kNever);
  EXPECT_EQ(fit("4*s0*s1", "0 : f32[s0, s1]{s1 + 1, 2}"), Fit::kUnknown) << "of one element it does";
}

TEST(WindowFit, NothingIsToldOfOtherSizes) {
  EXPECT_EQ(fit("4*s0", "0 : f32[s1]{1}"), Fit::kUnknown);
  EXPECT_EQ(fit("4*s0 + 4*k", "0 : f32[s0]{1}"), Fit::kUnknown) << "k may be negative";
  EXPECT_EQ(fit("4*s0 + 4*k", "0 : f32[s0 + k]{1}"), Fit::kAlways);
  EXPECT_EQ(fit("4*s0 + 4*k", "4*s0 : f32[k]{1}"), Fit::kAlways) << "where it has elements, k is at least 1";
}

TEST(WindowFit, WithoutElementsLieAnywhere) { EXPECT_EQ(fit("4*s0", "4000 : f32[0, s1]{s1, 1}"), Fit::kAlways); }

}  // namespace
}  // namespace npugraph::program
