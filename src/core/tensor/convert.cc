// SPDX-License-Identifier: Apache-2.0
#include "tensor/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace npugraph {
namespace {

// A sign bit, an exponent, a mantissa. `largest`, `overflow` and `nan` are codes without the sign: codes up to
// `largest` are finite, larger values become `overflow`, and NaN becomes `nan`. Types without a negative zero have
// their only NaN in its place.
struct Format {
  int mantissa_bits;
  int bias;
  uint8_t largest;
  uint8_t overflow;
  uint8_t nan;
  bool negative_zero;
};

constexpr Format kE4M3FN = {3, 7, 0x7e, 0x7e, 0x7f, true};
constexpr Format kE5M2 = {2, 15, 0x7b, 0x7c, 0x7f, true};
constexpr Format kE4M3FNUZ = {3, 8, 0x7f, 0x80, 0x80, false};
constexpr Format kE5M2FNUZ = {2, 16, 0x7f, 0x80, 0x80, false};

const Format& format_of(DType dtype) {
  switch (dtype) {
    case DType::kF8E4M3FN: return kE4M3FN;
    case DType::kF8E5M2: return kE5M2;
    case DType::kF8E4M3FNUZ: return kE4M3FNUZ;
    case DType::kF8E5M2FNUZ: return kE5M2FNUZ;
    default: NG_CHECK(false, name_of(dtype), " is no 8-bit float with a sign");
  }
}

float power_to_float(uint8_t bits) {
  return bits == 0xff ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, bits - 127);
}

uint8_t float_to_power(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t exponent = bits >> 23 & 0xff;
  const uint32_t mantissa = bits & 0x7fffff;
  if (exponent == 0xff) return 0xff;
  const bool up = mantissa > 0x400000 || (mantissa == 0x400000 && exponent > 0);
  return static_cast<uint8_t>(exponent + (up ? 1 : 0));
}

}  // namespace

bool is_float8(DType dtype) { return is_floating(dtype) && size_of(dtype) == 1; }

float float8_to_float(DType dtype, uint8_t bits) {
  if (dtype == DType::kF8E8M0FNU) return power_to_float(bits);
  const Format& format = format_of(dtype);
  const uint8_t magnitude = bits & 0x7f;
  const bool only_nan = !format.negative_zero && bits == 0x80;
  if (only_nan || magnitude > std::max(format.largest, format.overflow)) return std::numeric_limits<float>::quiet_NaN();
  const float sign = bits >> 7 ? -1.0f : 1.0f;
  if (magnitude > format.largest) {
    return format.overflow == format.nan ? std::numeric_limits<float>::quiet_NaN()
                                         : sign * std::numeric_limits<float>::infinity();
  }
  const int exponent = magnitude >> format.mantissa_bits;
  const int hidden = 1 << format.mantissa_bits;
  const int mantissa = magnitude & (hidden - 1);
  const int significand = exponent == 0 ? mantissa : hidden + mantissa;
  return sign * std::ldexp(static_cast<float>(significand), std::max(exponent, 1) - format.bias - format.mantissa_bits);
}

uint8_t float_to_float8(DType dtype, float x) {
  if (dtype == DType::kF8E8M0FNU) return float_to_power(x);
  const Format& format = format_of(dtype);
  const auto sign = static_cast<uint8_t>(std::signbit(x) ? 0x80 : 0);
  if (std::isnan(x)) return sign | format.nan;
  if (std::isinf(x)) return sign | format.overflow;
  const int smallest = 1 - format.bias;  // the exponent of the smallest normal number
  const int exponent = x == 0 ? smallest : std::max(std::ilogb(x), smallest);
  const double steps = std::nearbyint(std::ldexp(std::abs(static_cast<double>(x)), format.mantissa_bits - exponent));
  // Rounding up to the next power of two carries into the exponent by itself.
  const double code = std::ldexp(exponent - smallest, format.mantissa_bits) + steps;
  if (code > format.largest) return sign | format.overflow;
  if (code == 0 && !format.negative_zero) return 0;
  return sign | static_cast<uint8_t>(code);
}

}  // namespace npugraph
