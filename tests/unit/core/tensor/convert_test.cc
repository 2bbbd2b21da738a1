// SPDX-License-Identifier: Apache-2.0
// Conversions against their definitions, for every value of the small types.
#include "tensor/convert.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace npugraph {
namespace {

double value_of(Half h) {
  const int exponent = h.bits >> 10 & 31;
  const int mantissa = h.bits & 1023;
  const double sign = h.bits >> 15 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

TEST(Convert, EveryHalfIsExactInFloatAndComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Half half{static_cast<uint16_t>(bits)};
    const double value = value_of(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(half)));
      EXPECT_TRUE(std::isnan(value_of(to_half(to_float(half)))));
      continue;
    }
    EXPECT_EQ(to_float(half), value);
    EXPECT_EQ(std::signbit(to_float(half)), std::signbit(value));
    EXPECT_EQ(to_half(to_float(half)).bits, bits);
  }
}

// A number between two neighbours becomes the nearer one; the middle becomes the even one.
TEST(Convert, HalfRoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const float low = to_float(Half{static_cast<uint16_t>(bits)});
    const float high = bits == 0x7bff ? 65536.0f : to_float(Half{static_cast<uint16_t>(bits + 1)});
    const float middle = low + (high - low) / 2;
    EXPECT_EQ(to_half(middle).bits, bits + (bits & 1));
    EXPECT_EQ(to_half(std::nextafter(middle, low)).bits, bits);
    EXPECT_EQ(to_half(std::nextafter(middle, high)).bits, bits + 1);
  }
}

TEST(Convert, BFloat16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const float low = to_float(BFloat16{static_cast<uint16_t>(bits)});
    const auto middle = std::bit_cast<float>((bits << 16) + 0x8000);
    EXPECT_EQ(to_bfloat16(low).bits, bits);
    EXPECT_EQ(to_bfloat16(middle).bits, bits + (bits & 1));
    EXPECT_EQ(to_bfloat16(std::nextafter(middle, 0.0f)).bits, bits);
  }
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::nanf("")))));
}

TEST(Convert, FloatToIntegerTruncates) {
  EXPECT_EQ(convert<int32_t>(-1.9f), -1);
  EXPECT_EQ(convert<int64_t>(2.9), 2);
  EXPECT_EQ(convert<uint8_t>(-1.0f), 255);
  EXPECT_EQ(convert<uint8_t>(300.7f), 44);
  EXPECT_EQ(convert<int8_t>(200.0f), -56);
  EXPECT_EQ(convert<int32_t>(1e20f), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(convert<int64_t>(std::nan("")), std::numeric_limits<int64_t>::min());
}

TEST(Convert, UnsignedIntegersTakeTheirWholeRange) {
  EXPECT_EQ(convert<uint64_t>(0x1p63), uint64_t{1} << 63);
  EXPECT_EQ(convert<uint64_t>(-1.0), UINT64_MAX);
  EXPECT_EQ(convert<uint64_t>(0x1p64), uint64_t{1} << 63);
  EXPECT_EQ(convert<uint32_t>(4294967295.0), UINT32_MAX);
  EXPECT_EQ(convert<uint16_t>(-1.0f), UINT16_MAX);
}

TEST(Convert, AnythingButZeroIsTrue) {
  EXPECT_TRUE(convert<bool>(0.1f));
  EXPECT_TRUE(convert<bool>(std::nanf("")));
  EXPECT_FALSE(convert<bool>(-0.0));
  EXPECT_EQ(convert<float>(true), 1.0f);
  EXPECT_EQ(convert<double>(convert<Half>(int64_t{3})), 3.0);
}

}  // namespace
}  // namespace npugraph
