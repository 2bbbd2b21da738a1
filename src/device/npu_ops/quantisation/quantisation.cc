// SPDX-License-Identifier: Apache-2.0
#include "device/npu_ops/quantisation/quantisation.h"

#include <limits>

#include "device/npu_ops/quantisation/hifloat8.h"

namespace npugraph::npu_ops {
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
