// SPDX-License-Identifier: Apache-2.0
// Copies of matrix elements in the types that are multiplied, for operands that generated code does not read in place,
// and prefetches.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace npugraph::codegen {

// Copies `count` elements, `stride` bytes apart, to adjacent elements of `to_type`: f32, their own type (bf16, i8),
// or i16 for integers of 8 bits. The elements up to `padded` become zeros.
void copy_elements(const char* from, DType from_type, int64_t stride, int64_t count, void* to, DType to_type,
                   int64_t padded);

// Converts `count` adjacent elements to a type that holds them exactly: i8, bf16 or f16 to f32, i8 to bf16, or i8 or u8
// to i16. Generated code (tile.h).
using WidenFunction = void(const void* from, int64_t count, void* to);

// copy_elements(), done by `widen` if that is not null and the elements are adjacent.
void copy_row(const char* from, DType from_type, int64_t stride, WidenFunction* widen, int64_t count, void* to,
              DType to_type, int64_t padded);

// Packs `steps` steps of a panel of f32: `columns` columns, of which those from `count` on are zero. Step s, column c
// is the element at from + c * column_stride + s * k_stride. Strides are in bytes. `widen` as in copy_row().
void pack_steps(const char* from, DType from_type, int64_t k_stride, int64_t column_stride, WidenFunction* widen,
                int64_t count, int64_t steps, int64_t columns, void* panel);

// The same for pairs of bf16: step s, column c is the pair of elements of rows 2 * s and 2 * s + 1. The first step is
// `first`, and elements of rows from k on are zero.
void pack_pairs(const char* from, int64_t k_stride, int64_t column_stride, int64_t count, int64_t k, int64_t first,
                int64_t steps, int64_t columns, void* panel);

// Transposes, in place, a matrix of `rows` x `columns` pieces of `bytes` bytes each, row after row. Pieces have at most
// kMostPieceBytes bytes, and there are at most kMostPieces.
inline constexpr int64_t kMostPieceBytes = 256;
inline constexpr int64_t kMostPieces = 1 << 14;
void transpose_in_place(char* matrix, int64_t rows, int64_t columns, int64_t bytes);

// Prefetches of memory that a task is about to touch in pieces too short for the processor to fetch ahead.

// Prefetches `bytes` bytes of each row into the cache of a level (1 or 2). Rows are `stride` bytes apart.
template <int level>
void prefetch_rows(const char* from, int64_t rows, int64_t stride, int64_t bytes) {
  constexpr int64_t kLine = 64;
  constexpr int kLocality = 4 - level;
  for (int64_t r = 0; r < rows; ++r, from += stride) {
    asm volatile("" : : "r"(from));  // GCC 12 drops functions that do nothing but prefetch
    for (int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(from + at, 0, kLocality);
  }
}

}  // namespace npugraph::codegen
