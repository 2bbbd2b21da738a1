// SPDX-License-Identifier: Apache-2.0
// Copies of matrix elements in the types that are multiplied, for what generated code does not take as it lies.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace npugraph::codegen {

// `count` elements, stride bytes apart, as `to` (f32, or what they are: bf16, i8) one after the other; then zeros up to `padded`.
void copy_elements(const char* from, DType from_type, int64_t stride, int64_t count, void* to, DType to_type,
                   int64_t padded);

// A panel of `columns` columns for steps [first, first + steps) of a matrix with `k` rows: step s, column c is the element
// from + c * column_stride + s * k_stride, or the pair of those of rows 2 * s and 2 * s + 1. Columns from `count` on, and
// elements of rows from k on, are zero.
void pack_columns(const char* from, DType from_type, int64_t k_stride, int64_t column_stride, int64_t count, int64_t k,
                  int64_t first, int64_t steps, bool pairs, int64_t columns, void* panel);

// Transposes a matrix of `rows` x `columns` pieces of `bytes` bytes each, row after row, where it lies. Pieces have at most
// kMostPieceBytes bytes, and there are at most kMostPieces.
inline constexpr int64_t kMostPieceBytes = 256;
inline constexpr int64_t kMostPieces = 1 << 14;
void transpose_in_place(char* matrix, int64_t rows, int64_t columns, int64_t bytes);

}  // namespace npugraph::codegen
