// SPDX-License-Identifier: Apache-2.0
#include "tensor/shape.h"

#include <gtest/gtest.h>

#include "tensor/expr_test_util.h"

namespace npugraph {
namespace {

std::vector<Expr> dims(std::initializer_list<std::string_view> texts) {
  std::vector<Expr> out;
  for (std::string_view text : texts) out.push_back(expr(text));
  return out;
}

TEST(Shape, NumelOfScalarsIsOne) {
  EXPECT_EQ(numel({}), Expr(1));
  EXPECT_EQ(numel(dims({"s0", "4", "s0 + 1"})), expr("4*s0*s0 + 4*s0"));
  EXPECT_EQ(numel(dims({"s0", "0"})), Expr(0));
}

TEST(Shape, ContiguousStridesAreThoseOfPyTorch) {
  EXPECT_EQ(contiguous_strides({}), dims({}));
  EXPECT_EQ(contiguous_strides(dims({"2", "s0", "64"})), dims({"64*s0", "64", "1"}));
  EXPECT_EQ(contiguous_strides(dims({"2", "0", "3"})), dims({"3", "3", "1"}));
  EXPECT_EQ(contiguous_strides(dims({"3", "0"})), dims({"1", "1"}));
}

TEST(Shape, ContiguousTensorsAreRecognised) {
  EXPECT_TRUE(is_contiguous({}, {}));
  EXPECT_TRUE(is_contiguous(dims({"s0", "4"}), dims({"4", "1"})));
  EXPECT_TRUE(is_contiguous(dims({"s0", "1", "4"}), dims({"4", "77", "1"})));
  EXPECT_TRUE(is_contiguous(dims({"0", "4"}), dims({"9", "9"})));
  EXPECT_TRUE(is_contiguous(dims({"3", "u0"}), dims({"max(1, u0)", "1"})));
  EXPECT_TRUE(is_contiguous(dims({"4", "s0", "u0"}), dims({"s0*max(1, u0)", "max(1, u0)", "1"})));
  EXPECT_FALSE(is_contiguous(dims({"s0", "4"}), dims({"1", "s0"})));
  EXPECT_FALSE(is_contiguous(dims({"s0", "4"}), dims({"0", "1"})));
  EXPECT_FALSE(is_contiguous(dims({"4"}), dims({"2"})));
}

TEST(Shape, ExtentCoversTheLastElement) {
  EXPECT_EQ(extent({}, {}), Expr(1));
  EXPECT_EQ(extent(dims({"s0", "64"}), dims({"64", "1"})), expr("64*s0"));
  EXPECT_EQ(extent(dims({"3", "4"}), dims({"0", "2"})), Expr(7));
  EXPECT_EQ(extent(dims({"s0", "0"}), dims({"64", "1"})), Expr(0));
}

TEST(Shape, ExtentInBytesIsThatOfTheElements) {
  const auto bytes = [](std::vector<int64_t> sizes, std::vector<int64_t> strides) {
    return extent_bytes(sizes, strides, DType::kF32);
  };
  EXPECT_EQ(bytes({}, {}), 4);
  EXPECT_EQ(bytes({3, 4}, {8, 1}), 80);
  EXPECT_EQ(bytes({0, 0}, {1, 1}), 0);
  EXPECT_THROW(bytes({INT64_MAX, 2}, {4, 1}), UserError);
}

TEST(Shape, RanksMustAgree) {
  EXPECT_THROW(is_contiguous(dims({"2"}), {}), InternalError);
  EXPECT_THROW(extent(dims({"2"}), {}), InternalError);
}

}  // namespace
}  // namespace npugraph
