// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

#include <set>

#include <gtest/gtest.h>

#include "base/error.h"

namespace npugraph {
namespace {

DType nth(int i) { return static_cast<DType>(i); }

TEST(DType, NamesRoundTripAndAreUnique) {
  std::set<std::string_view> names;
  for (int i = 0; i < kNumDTypes; ++i) {
    names.insert(name_of(nth(i)));
    EXPECT_EQ(parse_dtype(name_of(nth(i))), nth(i));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kNumDTypes));
  EXPECT_EQ(parse_dtype("float32"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
}

TEST(DType, EachHasExactlyOneClass) {
  for (int i = 0; i < kNumDTypes; ++i)
    EXPECT_EQ(is_floating(nth(i)) + is_complex(nth(i)) + is_integral(nth(i)), 1) << name_of(nth(i));
}

TEST(DType, SizesAndClassesOfKnownTypes) {
  EXPECT_EQ(size_of(DType::kBool), 1);
  EXPECT_EQ(size_of(DType::kBF16), 2);
  EXPECT_EQ(size_of(DType::kU32), 4);
  EXPECT_EQ(size_of(DType::kF64), 8);
  EXPECT_EQ(size_of(DType::kC128), 16);
  EXPECT_EQ(size_of(DType::kF8E8M0FNU), 1);
  EXPECT_TRUE(is_integral(DType::kBool));
  EXPECT_TRUE(is_integral(DType::kU64));
  EXPECT_TRUE(is_floating(DType::kF8E5M2));
  EXPECT_TRUE(is_complex(DType::kC32));
}

TEST(DType, NumberOutsideOfTheTableIsAnInternalError) {
  EXPECT_THROW(size_of(nth(kNumDTypes)), InternalError);
  EXPECT_THROW(name_of(nth(-1)), InternalError);
}

}  // namespace
}  // namespace npugraph
