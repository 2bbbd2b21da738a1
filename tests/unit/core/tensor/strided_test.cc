// SPDX-License-Identifier: Apache-2.0
#include "tensor/strided.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"

namespace npugraph {
namespace {

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
