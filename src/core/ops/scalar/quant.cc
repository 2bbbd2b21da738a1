// SPDX-License-Identifier: Apache-2.0
// Formulas of quantisation to integers of 8 and 16 bits, in the order and types in which eager computes them. The
// scales and zero points of channels are ordinary elements here; the caller of emit_scalar() provides the right ones.
#include <algorithm>

#include "ops/scalar/formulas.h"

namespace npugraph::ops::formulas {
namespace {

using loop::Value;

// Positions of the leading arguments, the same for all operators. Those by channel have an `axis` before the limits.
constexpr size_t kInput = 0, kScale = 1, kZeroPoint = 2;

Value in_f32(Args a, size_t arg) { return a.as(arg, DType::kF32); }

Value quantize(Args a, Value inverse) {
  const Value moved = loop::unary(loop::Op::kRound, in_f32(a, kInput) * inverse) + in_f32(a, kZeroPoint);
  const auto limit = [&](std::string_view name) { return a.number(name, DType::kF32); };
  return loop::min(loop::max(moved, limit("quant_min")), limit("quant_max"));
}

bool is_one_element(const ir::TensorType* type) {
  return type != nullptr &&
         std::all_of(type->sizes.begin(), type->sizes.end(), [](const Expr& e) { return e.is_int(1); });
}

bool is_real(const Call& call, size_t arg) {
  const auto* number = std::get_if<Expr>(&call.args[arg]);
  return number != nullptr && number->is_constant();
}

// Whether the limits are known and lie in the range of `codes`, a type whose numbers are exact in f32.
bool fits_limits(const Call& call, DType codes) {
  const auto low = call.known_integer(*call.find("quant_min")), high = call.known_integer(*call.find("quant_max"));
  const bool is_signed = codes == DType::kI8 || codes == DType::kI16;
  if (!low || !high || (!is_signed && codes != DType::kU8)) return false;
  const int64_t half = int64_t{1} << (8 * size_of(codes) - 1);
  return is_signed ? *low >= -half && *high < half : *low >= 0 && *high < 2 * half;
}

bool fits_quantize(const Call& call) {
  const auto* input = call.tensor(kInput);
  const auto* dtype = std::get_if<DType>(&call.args[*call.find("dtype")]);
  const bool is_float =
      input != nullptr && (input->dtype == DType::kF32 || input->dtype == DType::kBF16 || input->dtype == DType::kF16);
  return is_float && dtype != nullptr && fits_limits(call, *dtype);
}

bool fits_dequantize(const Call& call) {
  const auto* input = call.tensor(kInput);
  if (input == nullptr || !fits_limits(call, input->dtype)) return false;
  const Attr& out = call.args[*call.find("out_dtype")];
  if (std::holds_alternative<None>(out)) return true;
  const auto* dtype = std::get_if<DType>(&out);
  return dtype != nullptr && (*dtype == DType::kF32 || *dtype == DType::kBF16 || *dtype == DType::kF16);
}

bool has_numbers(const Call& call) { return is_real(call, kScale) && is_real(call, kZeroPoint); }

bool is_integer(const ir::TensorType& type) { return type.dtype == DType::kI32 || type.dtype == DType::kI64; }

bool has_scales(const Call& call) {
  const auto* scales = call.tensor(kScale);
  const auto* zeros = call.tensor(kZeroPoint);
  return scales != nullptr && scales->dtype == DType::kF32 && (zeros == nullptr || is_integer(*zeros));
}

bool has_elements(const Call& call) {
  return has_scales(call) && is_one_element(call.tensor(kScale)) && is_one_element(call.tensor(kZeroPoint));
}

}  // namespace

Value quantize_by_number(Args a) { return quantize(a, a.constant(DType::kF32, 1.0 / *a.known(kScale))); }

Value quantize_by_element(Args a) { return quantize(a, a.constant(DType::kF32, 1) / in_f32(a, kScale)); }

// Rounds to the type of the result after each step.
Value dequantize(Args a) {
  const auto rounded = [&](Value x) { return loop::cast(loop::cast(x, a.result_type()), DType::kF32); };
  return rounded(rounded(in_f32(a, kInput)) - in_f32(a, kZeroPoint)) * in_f32(a, kScale);
}

// Zero points are integers, subtracted before anything is rounded.
Value dequantize_channel(Args a) {
  if (!a.has(kZeroPoint)) return in_f32(a, kInput) * in_f32(a, kScale);
  const DType type = a.type_of(kZeroPoint);
  return loop::cast(a.as(kInput, type) - a.as(kZeroPoint, type), DType::kF32) * in_f32(a, kScale);
}

bool fits_quantize_by_number(const Call& call) { return fits_quantize(call) && has_numbers(call); }
bool fits_quantize_by_element(const Call& call) { return fits_quantize(call) && has_elements(call); }
bool fits_quantize_by_channel(const Call& call) {
  return fits_quantize(call) && has_scales(call) && call.tensor(kZeroPoint) != nullptr;
}
bool fits_dequantize_by_number(const Call& call) { return fits_dequantize(call) && has_numbers(call); }
bool fits_dequantize_by_element(const Call& call) { return fits_dequantize(call) && has_elements(call); }
bool fits_dequantize_by_channel(const Call& call) { return fits_dequantize(call) && has_scales(call); }

}  // namespace npugraph::ops::formulas
