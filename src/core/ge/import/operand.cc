// SPDX-License-Identifier: Apache-2.0
#include "ge/import/operand.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>

#include "tensor/convert.h"

namespace npugraph::ge {
namespace {

template <typename T>
T load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

float as_float(const char* bytes, DType dtype) {
  switch (dtype) {
    case DType::kF32: return load<float>(bytes);
    case DType::kF16: return to_float(load<Half>(bytes));
    case DType::kBF16: return to_float(load<BFloat16>(bytes));
    default: return float8_to_float(dtype, load<uint8_t>(bytes));
  }
}

Expr read_element(const char* bytes, DType dtype) {
  switch (dtype) {
    case DType::kBool: return Expr::constant(Scalar::of_bool(load<uint8_t>(bytes) != 0));
    case DType::kU8: return Expr(load<uint8_t>(bytes));
    case DType::kI8: return Expr(load<int8_t>(bytes));
    case DType::kI16: return Expr(load<int16_t>(bytes));
    case DType::kU16: return Expr(load<uint16_t>(bytes));
    case DType::kI32: return Expr(load<int32_t>(bytes));
    case DType::kU32: return Expr(load<uint32_t>(bytes));
    case DType::kI64: return Expr(load<int64_t>(bytes));
    case DType::kU64: return Expr(static_cast<int64_t>(load<uint64_t>(bytes)));
    case DType::kF64: return Expr::constant(Scalar::of_float(load<double>(bytes)));
    default: return Expr::constant(Scalar::of_float(decimal(as_float(bytes, dtype))));
  }
}

}  // namespace

double decimal(float value) {
  std::array<char, 32> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value);
  double number = value;
  std::from_chars(text.data(), written.ptr, number);
  return number;
}

std::vector<Expr> read_elements(std::string_view bytes, DType dtype) {
  std::vector<Expr> elements;
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(size_of(dtype)))
    elements.push_back(read_element(bytes.data() + at, dtype));
  return elements;
}

}  // namespace npugraph::ge
