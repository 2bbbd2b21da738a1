// SPDX-License-Identifier: Apache-2.0
// Copies of rows of pixels with zeros around them, as machine code.
#pragma once

#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "target/target.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

// In each row, elements [begin, end) of `to` become those at from, from + step, ..; elements [0, begin) and [end,
// count) become zero. Strides are in bytes, from row to row.
using CopyRowsFunction = void(const void* from, int64_t from_stride, int64_t rows, int64_t begin, int64_t end,
                              int64_t count, void* to, int64_t to_stride);

// Supports steps of one or two elements, of f32, of bf16 that become `to_type`, or of f16 that become f32, on targets
// with masks; null for others. Thread-safe; made on first use.
CopyRowsFunction* copy_rows_code(const target::Target& target, DType from_type, DType to_type, int64_t step);

}  // namespace npugraph::codegen
