// SPDX-License-Identifier: Apache-2.0
#include "tensor/shape.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
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

using Numbers = std::vector<int64_t>;

TEST(Strided, BytesOfDenseTensorsFit64Bits) {
  EXPECT_EQ(dense_bytes(Numbers{}, DType::kF32), 4);
  EXPECT_EQ(dense_bytes(Numbers{3, 4}, DType::kI64), 96);
  EXPECT_EQ(dense_bytes(Numbers{INT64_MAX, INT64_MAX, 0}, DType::kF32), 0);
  EXPECT_THROW(dense_bytes(Numbers{INT64_MAX / 2, 2}, DType::kF32), UserError);
  EXPECT_THROW(dense_bytes(Numbers{-1, 0}, DType::kF32), UserError);
}

TEST(Strided, BytesReachToTheLastElement) {
  EXPECT_EQ(strided_bytes(Numbers{2, 3}, Numbers{1, 3}, DType::kI16), 16);
  EXPECT_EQ(strided_bytes(Numbers{2, 3}, Numbers{0, 1}, DType::kI16), 6);
  EXPECT_THROW(strided_bytes(Numbers{2, 3}, Numbers{-1, 2}, DType::kI16), UserError);
}

TEST(Strided, RowMajorTensorsAreRecognised) {
  EXPECT_TRUE(is_row_major(Numbers{}, Numbers{}));
  EXPECT_TRUE(is_row_major(Numbers{2, 1, 3}, Numbers{3, 77, 1}));
  EXPECT_TRUE(is_row_major(Numbers{0, 3}, Numbers{9, 9}));
  EXPECT_FALSE(is_row_major(Numbers{2, 3}, Numbers{1, 2}));
  EXPECT_FALSE(is_row_major(Numbers{2, 3}, Numbers{0, 1}));
}

TEST(Strided, ElementsAreCopiedBothWays) {
  const std::vector<int16_t> dense = {1, 2, 3, 4, 5, 6};
  std::vector<int16_t> strided(8, 9);
  copy_from_row_major(dense.data(), Numbers{2, 3}, Numbers{1, 3}, DType::kI16, strided.data());
  EXPECT_EQ(strided, (std::vector<int16_t>{1, 4, 9, 2, 5, 9, 3, 6}));
  std::vector<int16_t> again(6);
  copy_to_row_major(strided.data(), Numbers{2, 3}, Numbers{1, 3}, DType::kI16, again.data());
  EXPECT_EQ(again, dense);
  copy_to_row_major(strided.data(), Numbers{2, 0}, Numbers{1, 3}, DType::kI16, nullptr);
}

}  // namespace

}  // namespace npugraph
