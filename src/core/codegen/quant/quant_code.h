// SPDX-License-Identifier: Apache-2.0
// Machine code of the pieces of products with quantised weights: made on first use, shared by the process. Thread-safe.
#pragma once

#include <cstdint>

#include "codegen/matmul/matvec.h"
#include "codegen/quant/digits.h"
#include "loop/gguf.h"
#include "target/target.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

// Converts `count` adjacent blocks to f32.
using DequantizeFunction = void(const void* blocks, int64_t count, float* to);

DequantizeFunction* dequantize_code(const target::Target& target, loop::BlockType type);

// Matrix-vector products with a matrix of blocks, which is read once, in place; `vectors` is at most kMostVectors. The
// vectors are f32 or, with `by_digits`, as digits_code() writes them with one digit. Sums are in f32, in an order that
// depends on k alone.
RowsMatvecFunction* quant_matvec_code(const target::Target& target, loop::BlockType type, int vectors, bool by_digits);

// Matrix-vector products with quantised weights, 16 rows at a time: scales are decoded for all of these rows at once,
// and products of codes are integers.

inline constexpr int kRowsAtOnce = 16;

// Whether the target has the instructions for them.
bool has_quant_matvec16(const target::Target& target);

// Takes one vector as digits_code() writes it, and at least kRowsAtOnce rows that are less than 2^27 bytes apart. The
// order of sums depends on the number of blocks alone. Made on first use, shared by the process. Thread-safe.
RowsMatvecFunction* quant_matvec16_code(const target::Target& target, loop::BlockType type, int digits);

// Machine code of the pieces of products with weights as torch packs them in 4 bits (loop/int4.h): made on first use,
// shared by the process. Thread-safe. A weight is scale * (code - 8) + zero, where `group` steps (elements along k)
// share both. In memory, the scale of a column is followed by its zero, then by those of the next column.

// A block of columns: how wide it is, whether a byte holds columns of both halves, and the type of scales and zeros.
struct Int4Block {
  int columns = 64;
  bool halves = true;
  DType scales = DType::kF32;
};

// acc[v * acc_stride + c] = sum over k of x[v][k] * weight[k][c], for all columns c of a block; x_sums[v * sums_stride
// + g] is the sum of x[v] over group g. Strides in bytes, but acc_stride and sums_stride in elements.
using Int4MatvecFunction = void(const void* codes, const void* scales, int64_t scales_stride, int64_t groups,
                                int64_t group, const float* x, int64_t x_stride, const float* x_sums,
                                int64_t sums_stride, float* acc, int64_t acc_stride);

// Unpacks the weights of `groups` groups to f32, in panels of `panel_columns` columns for tiles (matmul/tile.h),
// panel_stride bytes from panel to panel. Columns of the last panel that the block lacks are zero.
using Int4UnpackFunction = void(const void* codes, const void* scales, int64_t scales_stride, int64_t groups,
                                int64_t group, float* panels, int64_t panel_stride);

// `vectors` is at most kMostVectors.
Int4MatvecFunction* int4_matvec_code(const target::Target& target, const Int4Block& block, int vectors);
Int4UnpackFunction* int4_unpack_code(const target::Target& target, const Int4Block& block, int panel_columns);

}  // namespace npugraph::codegen
