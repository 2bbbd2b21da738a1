// SPDX-License-Identifier: Apache-2.0
#include "program/window_facts.h"

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

Operand window_at(int64_t byte_offset, std::vector<Dim> sizes, std::vector<Dim> strides, DType dtype = DType::kF32) {
  return {.buffer = 0, .dtype = dtype, .byte_offset = {byte_offset}, .sizes = sizes, .strides = strides};
}

constexpr Dim kSymbol{.expr = 0};

TEST(Disjoint, OtherBuffers) {
  Operand other = window_at(0, {{4}}, {{1}});
  other.buffer = 1;
  EXPECT_TRUE(are_disjoint(window_at(0, {{4}}, {{1}}), other));
}

TEST(Disjoint, RangesOfABuffer) {
  const Operand first = window_at(0, {{2}, {4}}, {{4}, {1}});
  EXPECT_TRUE(are_disjoint(first, window_at(32, {{2}, {4}}, {{4}, {1}})));
  EXPECT_FALSE(are_disjoint(first, window_at(28, {{2}, {4}}, {{4}, {1}})));
  EXPECT_TRUE(are_disjoint(first, window_at(32, {{9}}, {{1}}, DType::kI8)));
  EXPECT_FALSE(are_disjoint(first, window_at(31, {{9}}, {{1}}, DType::kI8)));
  EXPECT_FALSE(are_disjoint(first, first));
}

TEST(Disjoint, PartsOfRows) {
  const Operand left = window_at(0, {{8}, {4}}, {{16}, {1}});
  EXPECT_TRUE(are_disjoint(left, window_at(16, {{8}, {12}}, {{16}, {1}})));
  EXPECT_FALSE(are_disjoint(left, window_at(12, {{8}, {4}}, {{16}, {1}})));
  EXPECT_FALSE(are_disjoint(left, window_at(32, {{8}, {12}}, {{16}, {1}})));  // goes over the end of its rows
  EXPECT_TRUE(are_disjoint(window_at(0, {{kSymbol}, {4}}, {{16}, {1}}), window_at(16, {{kSymbol}, {4}}, {{16}, {1}})));
  EXPECT_TRUE(are_disjoint(left, window_at(16, {{1}, {4}}, {{16}, {1}})));
}

TEST(Disjoint, IsNotClaimedWithoutProof) {
  EXPECT_FALSE(are_disjoint(window_at(0, {{4}}, {kSymbol}), window_at(64, {{4}}, {kSymbol})));
  EXPECT_FALSE(are_disjoint(window_at(0, {{4}, {kSymbol}}, {{16}, {1}}), window_at(16, {{4}, {kSymbol}}, {{16}, {1}})));
  Operand somewhere = window_at(0, {{4}}, {{1}});
  somewhere.byte_offset = kSymbol;
  EXPECT_FALSE(are_disjoint(somewhere, window_at(64, {{4}}, {{1}})));
  EXPECT_FALSE(are_disjoint(window_at(0, {{kSymbol}, {4}}, {{4}, {1}}), window_at(256, {{kSymbol}, {4}}, {{4}, {1}})));
  EXPECT_FALSE(
      are_disjoint(window_at(0, {{2}, {2}}, {{4}, {4}}), window_at(4, {{2}}, {{1}})));  // two dimensions of a stride
}

}  // namespace

}  // namespace npugraph::program
