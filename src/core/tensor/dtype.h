// SPDX-License-Identifier: Apache-2.0
// Element types: names of the text form, sizes in bytes, classes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "abi/task.h"

namespace npugraph {

enum class DType : int32_t {
  kBool = NG_BOOL,
  kU8 = NG_U8,
  kI8 = NG_I8,
  kI16 = NG_I16,
  kI32 = NG_I32,
  kI64 = NG_I64,
  kF16 = NG_F16,
  kBF16 = NG_BF16,
  kF32 = NG_F32,
  kF64 = NG_F64,
  kC32 = NG_C32,
  kC64 = NG_C64,
  kC128 = NG_C128,
  kU16 = NG_U16,
  kU32 = NG_U32,
  kU64 = NG_U64,
  kF8E4M3FN = NG_F8E4M3FN,
  kF8E5M2 = NG_F8E5M2,
  kF8E4M3FNUZ = NG_F8E4M3FNUZ,
  kF8E5M2FNUZ = NG_F8E5M2FNUZ,
  kF8E8M0FNU = NG_F8E8M0FNU,
};

inline constexpr int kNumDTypes = 21;

// Bytes of one element.
int64_t size_of(DType dtype);
// "f32", "bf16", "i64", "bool", "c64", "f8e4m3fn", ...
std::string_view name_of(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);
bool is_floating(DType dtype);  // real floating point, f8 to f64
bool is_complex(DType dtype);
bool is_integral(DType dtype);  // integers and bool
// The type in which elements are computed: f32 for bf16 and f16, else the type itself.
DType compute_type(DType dtype);

}  // namespace npugraph
