// SPDX-License-Identifier: Apache-2.0
#include "tensor/float8.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace npugraph {
namespace {

constexpr DType kSigned[] = {DType::kF8E4M3FN, DType::kF8E5M2, DType::kF8E4M3FNUZ, DType::kF8E5M2FNUZ};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Float8, EveryValueComesBack) {
  for (const DType dtype : {kSigned[0], kSigned[1], kSigned[2], kSigned[3], DType::kF8E8M0FNU}) {
    for (int bits = 0; bits < 256; ++bits) {
      const float value = float8_to_float(dtype, static_cast<uint8_t>(bits));
      const uint8_t back = float_to_float8(dtype, value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(float8_to_float(dtype, back))) << name_of(dtype) << " " << bits;
      } else {
        EXPECT_EQ(back, bits) << name_of(dtype);
      }
    }
  }
}

TEST(Float8, RoundsToNearestEven) {
  for (const DType dtype : kSigned) {
    for (uint8_t bits = 0; bits < 0x7b; ++bits) {
      const float low = float8_to_float(dtype, bits);
      const float high = float8_to_float(dtype, bits + 1);
      const float middle = low + (high - low) / 2;
      EXPECT_EQ(float_to_float8(dtype, middle), bits + (bits & 1)) << name_of(dtype);
      EXPECT_EQ(float_to_float8(dtype, std::nextafter(middle, 0.0f)), bits) << name_of(dtype);
      EXPECT_EQ(float_to_float8(dtype, std::nextafter(middle, kInfinity)), bits + 1) << name_of(dtype);
    }
  }
}

TEST(Float8, KnownValues) {
  EXPECT_EQ(float8_to_float(DType::kF8E4M3FN, 0x7e), 448.0f);
  EXPECT_EQ(float8_to_float(DType::kF8E5M2, 0x7b), 57344.0f);
  EXPECT_EQ(float8_to_float(DType::kF8E4M3FNUZ, 0x7f), 240.0f);
  EXPECT_EQ(float8_to_float(DType::kF8E5M2FNUZ, 0x7f), 57344.0f);
  EXPECT_EQ(float8_to_float(DType::kF8E8M0FNU, 127), 1.0f);
  EXPECT_EQ(float8_to_float(DType::kF8E5M2, 0xfc), -kInfinity);
  EXPECT_TRUE(std::isnan(float8_to_float(DType::kF8E4M3FN, 0xff)));
  EXPECT_TRUE(std::isnan(float8_to_float(DType::kF8E5M2, 0x7d)));
  EXPECT_TRUE(std::isnan(float8_to_float(DType::kF8E4M3FNUZ, 0x80)));
}

TEST(Float8, OverflowAndZeros) {
  EXPECT_EQ(float_to_float8(DType::kF8E4M3FN, 464.0f), 0x7e);
  EXPECT_EQ(float_to_float8(DType::kF8E4M3FN, -465.0f), 0xfe);
  EXPECT_EQ(float_to_float8(DType::kF8E4M3FN, kInfinity), 0x7e);
  EXPECT_EQ(float_to_float8(DType::kF8E4M3FN, std::nanf("")), 0x7f);
  EXPECT_EQ(float_to_float8(DType::kF8E5M2, 61440.0f), 0x7c);
  EXPECT_EQ(float_to_float8(DType::kF8E5M2, kInfinity), 0x7c);
  EXPECT_EQ(float_to_float8(DType::kF8E4M3FNUZ, -300.0f), 0x80);
  EXPECT_EQ(float_to_float8(DType::kF8E4M3FN, -0.0f), 0x80);
  EXPECT_EQ(float_to_float8(DType::kF8E4M3FNUZ, -1e-30f), 0);
  EXPECT_EQ(float_to_float8(DType::kF8E8M0FNU, 0.0f), 0);
  EXPECT_EQ(float_to_float8(DType::kF8E8M0FNU, 1.5f), 128);
  EXPECT_EQ(float_to_float8(DType::kF8E8M0FNU, 1.25f), 127);
  EXPECT_EQ(float_to_float8(DType::kF8E8M0FNU, kInfinity), 255);
}

}  // namespace
}  // namespace npugraph
