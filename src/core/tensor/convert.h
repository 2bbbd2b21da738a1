// SPDX-License-Identifier: Apache-2.0
// Conversion between element types, as ATen converts: round to nearest even, float to integer truncates, anything but
// zero is true. Values that do not fit an integer give the result of x86 on every processor.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tensor/dtype.h"

namespace npugraph {

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline float to_float(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

inline float to_float(Half x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const uint32_t exponent = x.bits >> 10 & 0x1f;
  const uint32_t mantissa = x.bits & 0x3ff;
  if (exponent == 0) {  // zero and denormals: exact as a product
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

inline BFloat16 to_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return {0x7fc0};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

inline Half to_half(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return {static_cast<uint16_t>(sign | 0x7e00)};
  if (magnitude >= 0x477ff000) return {static_cast<uint16_t>(sign | 0x7c00)};  // rounds to 65536 or more
  if (magnitude < 0x38800000) {  // below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000))};
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000;
  return {static_cast<uint16_t>(sign | rounded >> 13)};
}

template <typename Int, typename Float>
Int truncate(Float x) {
  constexpr Float kLow = static_cast<Float>(std::numeric_limits<Int>::min());
  if (!(x >= kLow && x < -kLow)) return std::numeric_limits<Int>::min();
  return static_cast<Int>(x);
}

template <typename T>
inline constexpr bool kIsReduced = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <typename To, typename From>
To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIsReduced<From>) {
    return convert<To>(to_float(x));
  } else if constexpr (std::is_same_v<To, Half>) {
    return to_half(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return to_bfloat16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Wide = std::conditional_t<(sizeof(To) < 8 && std::is_signed_v<To>), int32_t, int64_t>;
    constexpr bool kIsU64 = std::is_unsigned_v<To> && sizeof(To) == 8;
    if (kIsU64 && x >= From{0x1p63} && x < From{0x1p64}) return static_cast<To>(x);
    return static_cast<To>(truncate<Wide>(x));
  } else {
    return static_cast<To>(x);
  }
}

// The 8-bit floating-point types: every value is exact as a float; floats round to nearest even, as ATen rounds them.
// Values that are too large become infinity (e5m2), the largest value (e4m3fn) or NaN (the others). e8m0fnu keeps only
// the exponent, without a sign.

bool is_float8(DType dtype);
// Require is_float8(dtype).
float float8_to_float(DType dtype, uint8_t bits);
uint8_t float_to_float8(DType dtype, float x);

}  // namespace npugraph
