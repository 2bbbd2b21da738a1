// SPDX-License-Identifier: Apache-2.0
// Conversions against their definitions, for every value of the small types.
#include "tensor/convert.h"

#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tensor/dtype.h"

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
