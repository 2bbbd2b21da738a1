// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/quantisation/quantisation.h"

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

namespace {

constexpr int64_t kInt4 = 285;     // torch_npu.int4
constexpr int64_t kPerWord = 8;    // int4 values in an int32
constexpr int64_t kInt4Mask = 15;  // of one value
constexpr int64_t kInt4Sign = 8;

template <typename T>
QuantType limits_of(at::ScalarType type) {
  using Limits = std::numeric_limits<T>;
  return {type, static_cast<double>(Limits::lowest()), static_cast<double>(Limits::max())};
}

at::ScalarType plain(at::ScalarType type) { return at::isQIntType(type) ? c10::toUnderlying(type) : type; }

Tensor shifts(const Tensor& like) { return at::arange(0, 4 * kPerWord, 4, like.options().dtype(at::kInt)); }

}  // namespace

QuantType quant_type(const char* op, const char* name, std::optional<int64_t> code) {
  const bool is_int4 = code == kInt4 || code == static_cast<int64_t>(at::kQUInt4x2);
  if (is_int4) return {.storage = at::kInt, .low = -8, .high = 7, .is_int4 = true};
  if (code == kHifloat8Code)
    return {.storage = at::kByte, .low = -kLargestHifloat8, .high = kLargestHifloat8, .is_hifloat8 = true};
  const at::ScalarType type = plain(type_of_code(op, name, code, at::kChar));
  switch (type) {
    case at::kChar: return limits_of<int8_t>(type);
    case at::kByte: return limits_of<uint8_t>(type);
    case at::kInt: return limits_of<int32_t>(type);
    case at::kFloat8_e4m3fn: return limits_of<c10::Float8_e4m3fn>(type);
    case at::kFloat8_e5m2: return limits_of<c10::Float8_e5m2>(type);
    default:
      TORCH_CHECK(false, op, ": ", name, " is ", type,
                  ", allowed are int8, uint8, int32, int4, float8_e4m3fn, float8_e5m2 and hifloat8");
  }
}

Tensor quantised(const char* op, const Tensor& exact, const QuantType& type) {
  if (type.is_hifloat8) return to_hifloat8(exact);
  if (type.is_floating()) return exact.clamp(type.low, type.high).to(type.storage);
  // The largest int32 is not a float32, so int32 is clamped in float64.
  const Tensor rounded = at::round(type.storage == at::kInt ? exact.to(at::kDouble) : exact);
  const Tensor clamped = rounded.clamp(type.low, type.high).to(type.storage);
  return type.is_int4 ? pack_int4(op, clamped) : clamped;
}

Tensor statically_quantised(const char* op, const Tensor& exact, const Tensor& scale, const Tensor& offset, bool divide,
                            const QuantType& type) {
  const Tensor scaled = divide ? exact / wide(scale) : exact * wide(scale);
  return quantised(op, offset.defined() ? scaled + wide(offset) : scaled, type);
}

Tensor pack_int4(const char* op, const Tensor& values) {
  check_dims(op, "a tensor of int4", values, 1, 8);
  const c10::SymInt size = values.sym_size(-1);
  TORCH_CHECK(size % kPerWord == 0, op, ": the last dimension has ", size,
              " values of int4, which do not fill words of ", kPerWord);
  const Tensor rows = values.to(at::kInt).unflatten_symint(-1, {size / kPerWord, kPerWord});
  return rows.bitwise_and(kInt4Mask).bitwise_left_shift(shifts(values)).sum(-1, /*keepdim=*/false, at::kInt);
}

Tensor unpack_int4(const Tensor& words) {
  const Tensor nibbles = words.unsqueeze(-1).bitwise_right_shift(shifts(words)).bitwise_and(kInt4Mask);
  return nibbles.bitwise_xor(kInt4Sign).sub(kInt4Sign).to(at::kChar).flatten(-2);
}

Quantised dynamically_quantised(const char* op, const Tensor& exact, int64_t dim, const QuantType& type, double top) {
  const Tensor largest = at::amax(exact.abs(), dim, /*keepdim=*/true);
  const Tensor scale = largest / (top == 0 ? type.high : top);
  const Tensor divisor = scale.masked_fill(scale == 0, 1);
  return {quantised(op, exact / divisor, type), scale.squeeze(dim).to(at::kFloat)};
}

Tensor group_of_rows(const Tensor& ends, const c10::SymInt& rows) {
  const Tensor row = at::arange(c10::Scalar(rows), ends.options().dtype(at::kLong));
  const Tensor ended = row.unsqueeze(-1).ge(ends);
  return at::minimum(ended.sum(-1), ended.new_full({}, c10::Scalar(ends.sym_size(0) - 1), at::kLong));
}

Tensor rows_by_group(const Tensor& table, const Tensor& ends, const c10::SymInt& rows) {
  return table.dim() < 2 ? table : table.index_select(0, group_of_rows(ends, rows));
}

}  // namespace npugraph::npu_ops
