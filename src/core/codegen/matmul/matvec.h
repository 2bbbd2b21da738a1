// SPDX-License-Identifier: Apache-2.0
// Generated products of a matrix with a few vectors, at the speed of memory: the matrix is read once, in place.
#pragma once

#include <cstdint>

#include <llvm/IR/IRBuilder.h>

#include "target/target.h"

namespace npugraph::codegen {

inline constexpr int kMostVectors = 8;

// The type of the matrix and how it is multiplied. The vectors are f32, except for kBf16Dot (bf16), kI8Dot (i8)
// and kU8Dot (u8). Sums of the last two are those of kI8Quads and kU8Quads (tile.h), with the matrix as rows.
enum class MatvecKind : uint8_t { kF32, kBf16, kF16, kBf16Dot, kI8, kI8Dot, kU8Dot };

// The type of the elements of the matrix.
DType element_of(MatvecKind kind);

// acc[v * acc_stride + r] = sum over k of matrix[r][k] * x[v][k]; rows and vectors are contiguous along k. Strides in
// bytes, but acc_stride in elements.
using RowsMatvecFunction = void(const void* matrix, int64_t row_stride, int64_t rows, const void* x, int64_t x_stride,
                                int64_t k, float* acc, int64_t acc_stride);

// acc[v * acc_stride + c] += sum over k of matrix[k][c] * x[v][k]; rows are contiguous along c. Not for
// kBf16Dot, kI8Dot and kU8Dot.
using ColumnsMatvecFunction = void(const void* matrix, int64_t row_stride, int64_t columns, const void* x,
                                   int64_t x_stride, int64_t k, float* acc, int64_t acc_stride);

// The LLVM type of both functions.
llvm::FunctionType* matvec_type(llvm::LLVMContext& context);

// Fill in the body of a function of that type, for `vectors` vectors.
void emit_rows_matvec(llvm::Function* function, MatvecKind kind, int vectors, const target::Target& target);
void emit_columns_matvec(llvm::Function* function, MatvecKind kind, int vectors, const target::Target& target);

}  // namespace npugraph::codegen
