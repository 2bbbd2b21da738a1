// SPDX-License-Identifier: Apache-2.0
// Machine code of the pieces of products with quantised weights: made on first use, shared by the process. Thread-safe.
#pragma once

#include "codegen/matmul/matvec.h"
#include "loop/gguf.h"

namespace npugraph::codegen {

// Converts `count` adjacent blocks to f32.
using DequantizeFunction = void(const void* blocks, int64_t count, float* to);

DequantizeFunction* dequantize_code(const target::Target& target, loop::BlockType type);

// Matrix-vector products with a matrix of blocks, which is read once, in place; `vectors` is at most kMostVectors. The
// vectors are f32 or, with `by_digits`, as digits_code() writes them with one digit. Sums are in f32, in an order that
// depends on k alone.
RowsMatvecFunction* quant_matvec_code(const target::Target& target, loop::BlockType type, int vectors, bool by_digits);

}  // namespace npugraph::codegen
