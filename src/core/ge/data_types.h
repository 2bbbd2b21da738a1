// SPDX-License-Identifier: Apache-2.0
// The numberings of element types that models of GE use.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ge/model.h"
#include "tensor/dtype.h"

namespace npugraph::ge {

struct DataTypeRow {
  WireType wire;               // ge.proto.DataType, in descriptors
  int64_t number;              // ge::DataType, in attributes (`dtype`, `dst_type`, `_output_dtypes`) and in the C++ API
  std::string_view name;       // "DT_FLOAT"
  std::optional<DType> dtype;  // nullopt: the engine computes nothing in it
};

inline constexpr std::array kDataTypes = {
    DataTypeRow{WireType::kUndefined, 28, "DT_UNDEFINED", std::nullopt},
    DataTypeRow{WireType::kFloat, 0, "DT_FLOAT", DType::kF32},
    DataTypeRow{WireType::kFloat16, 1, "DT_FLOAT16", DType::kF16},
    DataTypeRow{WireType::kInt8, 2, "DT_INT8", DType::kI8},
    DataTypeRow{WireType::kUint8, 4, "DT_UINT8", DType::kU8},
    DataTypeRow{WireType::kInt16, 6, "DT_INT16", DType::kI16},
    DataTypeRow{WireType::kUint16, 7, "DT_UINT16", DType::kU16},
    DataTypeRow{WireType::kInt32, 3, "DT_INT32", DType::kI32},
    DataTypeRow{WireType::kInt64, 9, "DT_INT64", DType::kI64},
    DataTypeRow{WireType::kUint32, 8, "DT_UINT32", DType::kU32},
    DataTypeRow{WireType::kUint64, 10, "DT_UINT64", DType::kU64},
    DataTypeRow{WireType::kBool, 12, "DT_BOOL", DType::kBool},
    DataTypeRow{WireType::kDouble, 11, "DT_DOUBLE", DType::kF64},
    DataTypeRow{WireType::kString, 13, "DT_STRING", std::nullopt},
    DataTypeRow{WireType::kComplex64, 16, "DT_COMPLEX64", DType::kC64},
    DataTypeRow{WireType::kComplex128, 17, "DT_COMPLEX128", DType::kC128},
    DataTypeRow{WireType::kBf16, 27, "DT_BF16", DType::kBF16},
    DataTypeRow{WireType::kComplex32, 33, "DT_COMPLEX32", DType::kC32},
    DataTypeRow{WireType::kFloat8E5m2, 35, "DT_FLOAT8_E5M2", DType::kF8E5M2},
    DataTypeRow{WireType::kFloat8E4m3fn, 36, "DT_FLOAT8_E4M3FN", DType::kF8E4M3FN},
};

// Null for a type that is not in the table.
const DataTypeRow* find_type(WireType wire);
const DataTypeRow* find_type_by_number(int64_t number);
// The row of a type that the engine computes with.
const DataTypeRow& row_of(DType dtype);
// "DT_FLOAT", or "type 77" for a number that is not in the table.
std::string type_text(WireType wire);

}  // namespace npugraph::ge
