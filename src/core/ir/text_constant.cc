// SPDX-License-Identifier: Apache-2.0
// Elements of small constants as text.
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>

#include "base/error.h"
#include "ir/text_parts.h"
#include "tensor/shape.h"

namespace npugraph::ir {
namespace {

// A 16-bit binary format with `kMantissa` stored bits: 10 for f16, 7 for bf16.
template <int kMantissa>
double decode16(uint16_t bits) {
  constexpr int kExponentBits = 15 - kMantissa;
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  const int exponent = (bits >> kMantissa) & ((1 << kExponentBits) - 1);
  const int mantissa = bits & ((1 << kMantissa) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << kExponentBits) - 1) return mantissa == 0 ? sign * HUGE_VAL : std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - kBias - kMantissa);
  return sign * std::ldexp(mantissa + (1 << kMantissa), exponent - kBias - kMantissa);
}

// The inverse; rounds to nearest even in the default rounding mode.
template <int kMantissa>
uint16_t encode16(double value) {
  constexpr int kExponentBits = 15 - kMantissa;
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr uint16_t kInfinity = ((1 << kExponentBits) - 1) << kMantissa;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return kInfinity | (1 << (kMantissa - 1));
  if (std::isinf(value) || value == 0) return sign | (value == 0 ? 0 : kInfinity);
  const int exponent = std::max(std::ilogb(value), 1 - kBias);
  // In units of the last place; a carry out of the mantissa raises the exponent field by itself.
  const auto units = static_cast<int64_t>(std::nearbyint(std::ldexp(std::abs(value), kMantissa - exponent)));
  const int64_t field = (static_cast<int64_t>(exponent + kBias - 1) << kMantissa) + units;
  return sign | static_cast<uint16_t>(std::min<int64_t>(field, kInfinity));
}

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

double load_real(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF16: return decode16<10>(load<uint16_t>(at));
    case DType::kBF16: return decode16<7>(load<uint16_t>(at));
    case DType::kF32: return load<float>(at);
    default: return load<double>(at);
  }
}

void store_real(DType dtype, std::byte* at, double value) {
  switch (dtype) {
    case DType::kF16: return store(at, encode16<10>(value));
    case DType::kBF16: return store(at, encode16<7>(value));
    case DType::kF32: return store(at, static_cast<float>(value));
    default: return store(at, value);
  }
}

DType part_of(DType complex) {
  if (complex == DType::kC32) return DType::kF16;
  return complex == DType::kC64 ? DType::kF32 : DType::kF64;
}

// 8-bit floats count as integers, which are their bits.
bool is_real(DType dtype) { return is_floating(dtype) && size_of(dtype) > 1; }

int64_t load_integer(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kI8: return load<int8_t>(at);
    case DType::kI16: return load<int16_t>(at);
    case DType::kI32: return load<int32_t>(at);
    default: break;
  }
  switch (size_of(dtype)) {
    case 1: return load<uint8_t>(at);
    case 2: return load<uint16_t>(at);
    case 4: return load<uint32_t>(at);
    default: return load<int64_t>(at);
  }
}

void store_integer(DType dtype, std::byte* at, int64_t value) {
  switch (size_of(dtype)) {
    case 1: return store(at, static_cast<uint8_t>(value));
    case 2: return store(at, static_cast<uint16_t>(value));
    case 4: return store(at, static_cast<uint32_t>(value));
    default: return store(at, value);
  }
}

Attr load_element(DType dtype, const std::byte* at) {
  if (dtype == DType::kBool) return Expr::constant(Scalar::of_bool(load<uint8_t>(at) != 0));
  if (is_complex(dtype)) {
    const DType part = part_of(dtype);
    return std::complex<double>(load_real(part, at), load_real(part, at + size_of(part)));
  }
  if (is_real(dtype)) return Expr::constant(Scalar::of_float(load_real(dtype, at)));
  return Expr(load_integer(dtype, at));
}

// False when the element does not fit.
bool store_element(DType dtype, const Attr& element, std::byte* at) {
  if (const auto* number = std::get_if<std::complex<double>>(&element)) {
    if (!is_complex(dtype)) return false;
    const DType part = part_of(dtype);
    store_real(part, at, number->real());
    store_real(part, at + size_of(part), number->imag());
    return true;
  }
  const auto* e = std::get_if<Expr>(&element);
  if (e == nullptr || !e->is_constant() || is_complex(dtype)) return false;
  const Scalar value = e->value();
  if (is_real(dtype)) {
    store_real(dtype, at, value.as_float());
    return value.kind != ScalarKind::kBool;
  }
  if (value.kind == ScalarKind::kFloat || (value.kind == ScalarKind::kBool) != (dtype == DType::kBool)) return false;
  store_integer(dtype, at, value.as_int());
  return dtype == DType::kBool || load_integer(dtype, at) == value.as_int();
}

}  // namespace

std::optional<int64_t> constant_elements(const Type& type) {
  const auto* tensor = std::get_if<TensorType>(&type);
  if (tensor == nullptr) return std::nullopt;
  const auto count = extent(tensor->sizes, tensor->strides).as_int();
  return count && *count >= 0 ? count : std::nullopt;  // below 0 for negative strides, which the text form can express
}

std::optional<std::string> print_elements(const Type& type, const ConstantData& data) {
  const auto count = constant_elements(type);
  if (!count || *count > kMaxPrintedElements) return std::nullopt;
  const DType dtype = std::get<TensorType>(type).dtype;
  if (data.bytes < *count * size_of(dtype) || (data.data == nullptr && *count > 0)) return std::nullopt;
  std::string out = "[";
  for (int64_t i = 0; i < *count; ++i) {
    if (i > 0) out += ", ";
    out += to_text(load_element(dtype, static_cast<const std::byte*>(data.data) + i * size_of(dtype)), {});
  }
  out += ']';
  return out;
}

std::shared_ptr<const ConstantData> parse_elements(Lexer& lexer, const Type& type) {
  const auto count = constant_elements(type);
  if (!count || *count > kMaxPrintedElements) {
    lexer.fail(
        cat("'external': only tensors of known size with at most ", kMaxPrintedElements, " elements have values"));
  }
  const DType dtype = std::get<TensorType>(type).dtype;
  auto bytes = std::make_shared<std::vector<std::byte>>(*count * size_of(dtype));
  const ParseContext no_names{[](std::string_view) { return ScalarKind::kInt; },
                              [](const std::string&) { return TensorRef{}; }};
  lexer.expect("[");
  for (int64_t i = 0; i < *count; ++i) {
    if (i > 0) lexer.expect(",");
    const Token at = lexer.peek();
    if (!store_element(dtype, parse_attr(lexer, no_names), bytes->data() + i * size_of(dtype))) {
      lexer.fail_at(at, cat("not an element of type ", name_of(dtype)));
    }
  }
  lexer.expect("]");
  auto data = std::make_shared<ConstantData>();
  data->data = bytes->data();
  data->bytes = static_cast<int64_t>(bytes->size());
  data->owner = std::move(bytes);
  return data;
}

}  // namespace npugraph::ir
