// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/quantisation/hifloat8.h"

#include <limits>

namespace npugraph::npu_ops {
namespace {

using at::Tensor;

// After the sign, a code is a prefix, which tells how many digits the exponent has, the exponent (its sign, and the
// digits behind a leading one), and the rest of the significand. Codes below 8 are powers of two from 2^-22 on, and 0.
constexpr int64_t kSign = 0x80, kNanCode = 0x80, kInfinityCode = 0x6f;
constexpr int64_t kFirstOfPrefix = 8;  // the least code with an exponent of no digits; 16, 32, 64: of 1, 2, 3; 96: of 4
constexpr int64_t kTinyExponent = 23;  // codes below 8 are 2^(code - 23)
constexpr int64_t kLeastExponent = -22, kLeastNormal = -15, kLargestExponent = 15;
constexpr double kStandsForInfinity = 49152;  // 1.5 * 2^15

Tensor exponent_of(const Tensor& x) { return x.view(at::kInt).bitwise_right_shift(23).bitwise_and(255) - 127; }

// How many bits the rest of the significand has behind exponents of so many digits.
Tensor width_of_fraction(const Tensor& digits) { return (5 - digits).clamp_max(3); }

Tensor power_of_two(const Tensor& exponent) { return at::exp2(exponent.to(at::kFloat)); }
Tensor shifted(int64_t bits, const Tensor& by) { return at::full_like(by, bits).bitwise_left_shift(by); }

Tensor digits_of_exponent(const Tensor& exponent) {
  const Tensor size = exponent.abs();
  return (size >= 1).to(at::kInt) + (size >= 2) + (size >= 4) + (size >= 8);
}

}  // namespace

Tensor to_hifloat8(const Tensor& exact) {
  const Tensor x = exact.to(at::kFloat), size = x.abs().masked_fill(x.isnan(), 0);
  const Tensor exponent = exponent_of(size).clamp(kLeastExponent, kLargestExponent);
  const Tensor bits = width_of_fraction(digits_of_exponent(exponent)).masked_fill(exponent < kLeastNormal, 0);
  const Tensor step = power_of_two(exponent - bits);
  const Tensor rounded = (at::floor(size / step + 0.5) * step).clamp_max(kStandsForInfinity);
  const Tensor power = exponent_of(rounded);
  const Tensor digits = digits_of_exponent(power), width = width_of_fraction(digits);
  const Tensor leading = shifted(1, digits).bitwise_right_shift(1);
  const Tensor field = power.abs().bitwise_and(leading - 1) + leading.masked_fill(power >= 0, 0);
  const Tensor fraction = ((rounded / power_of_two(power.clamp_min(kLeastExponent)) - 1) * power_of_two(width));
  const Tensor prefix = shifted(kFirstOfPrefix, digits).clamp_max(96);
  const Tensor normal = prefix + field.bitwise_left_shift(width) + fraction.to(at::kInt);
  const Tensor tiny = (power + kTinyExponent).masked_fill(rounded == 0, 0);
  const Tensor code = at::where(power < kLeastNormal, tiny, normal);
  const Tensor with_sign = code + ((x < 0).logical_and(code > 0)).to(at::kInt) * kSign;
  return with_sign.masked_fill(x.isnan(), kNanCode).to(at::kByte);
}

Tensor from_hifloat8(const Tensor& bytes) {
  const Tensor all = bytes.view(at::kByte).to(at::kInt), code = all.bitwise_and(kSign - 1);
  const Tensor digits = (code >= 16).to(at::kInt) + (code >= 32) + (code >= 64) + (code >= 96);
  const Tensor width = width_of_fraction(digits);
  const Tensor leading = shifted(1, digits).bitwise_right_shift(1);
  const Tensor field = code.bitwise_right_shift(width).bitwise_and(shifted(1, digits) - 1);
  const Tensor magnitude = leading + field.bitwise_and((leading - 1).clamp_min(0));
  const Tensor exponent = at::where(field.bitwise_and(leading) > 0, -magnitude, magnitude);
  const Tensor fraction = code.bitwise_and(shifted(1, width) - 1).to(at::kFloat);
  const Tensor normal = (fraction / power_of_two(width) + 1) * power_of_two(exponent);
  const Tensor tiny = power_of_two(code - kTinyExponent).masked_fill(code == 0, 0);
  const Tensor size = at::where(code < kFirstOfPrefix, tiny, normal)
                          .masked_fill(code == kInfinityCode, std::numeric_limits<double>::infinity());
  return at::where(all >= kSign, -size, size).masked_fill(all == kNanCode, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace npugraph::npu_ops
