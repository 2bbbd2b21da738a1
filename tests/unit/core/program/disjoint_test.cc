// SPDX-License-Identifier: Apache-2.0
#include "program/disjoint.h"

#include <gtest/gtest.h>

namespace npugraph::program {
namespace {

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
