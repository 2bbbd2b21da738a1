// SPDX-License-Identifier: Apache-2.0
#include "ge/data_types.h"

#include <algorithm>

#include "base/error.h"

namespace npugraph::ge {

const DataTypeRow* find_type(WireType wire) {
  const auto* row = std::ranges::find(kDataTypes, wire, &DataTypeRow::wire);
  return row == kDataTypes.end() ? nullptr : row;
}

const DataTypeRow* find_type_by_number(int64_t number) {
  const auto* row = std::ranges::find(kDataTypes, number, &DataTypeRow::number);
  return row == kDataTypes.end() ? nullptr : row;
}

const DataTypeRow& row_of(DType dtype) {
  const auto* row = std::ranges::find(kDataTypes, dtype, &DataTypeRow::dtype);
  NG_CHECK(row != kDataTypes.end(), "GE has no type ", npugraph::name_of(dtype));
  return *row;
}

std::string type_text(WireType wire) {
  const DataTypeRow* row = find_type(wire);
  return row == nullptr ? cat("type ", static_cast<int32_t>(wire)) : std::string(row->name);
}

}  // namespace npugraph::ge
