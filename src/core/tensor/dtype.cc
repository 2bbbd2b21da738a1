// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

#include <array>

#include "base/error.h"

namespace npugraph {
namespace {

enum class Class : uint8_t { kIntegral, kFloating, kComplex };

struct Row {
  std::string_view name;
  int64_t size;
  Class cls;
};

// Indexed by the ABI number of the type.
constexpr std::array<Row, kNumDTypes> kRows = {{
    {"bool", 1, Class::kIntegral},       {"u8", 1, Class::kIntegral},         {"i8", 1, Class::kIntegral},
    {"i16", 2, Class::kIntegral},        {"i32", 4, Class::kIntegral},        {"i64", 8, Class::kIntegral},
    {"f16", 2, Class::kFloating},        {"bf16", 2, Class::kFloating},       {"f32", 4, Class::kFloating},
    {"f64", 8, Class::kFloating},        {"c32", 4, Class::kComplex},         {"c64", 8, Class::kComplex},
    {"c128", 16, Class::kComplex},       {"u16", 2, Class::kIntegral},        {"u32", 4, Class::kIntegral},
    {"u64", 8, Class::kIntegral},        {"f8e4m3fn", 1, Class::kFloating},   {"f8e5m2", 1, Class::kFloating},
    {"f8e4m3fnuz", 1, Class::kFloating}, {"f8e5m2fnuz", 1, Class::kFloating}, {"f8e8m0fnu", 1, Class::kFloating},
}};

const Row& row_of(DType dtype) {
  auto index = static_cast<size_t>(dtype);
  NG_CHECK(index < kRows.size(), "dtype number ", static_cast<int32_t>(dtype));
  return kRows[index];
}

}  // namespace

int64_t size_of(DType dtype) { return row_of(dtype).size; }

std::string_view name_of(DType dtype) { return row_of(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

bool is_floating(DType dtype) { return row_of(dtype).cls == Class::kFloating; }
bool is_complex(DType dtype) { return row_of(dtype).cls == Class::kComplex; }
bool is_integral(DType dtype) { return row_of(dtype).cls == Class::kIntegral; }

DType compute_type(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16 ? DType::kF32 : dtype; }

}  // namespace npugraph
