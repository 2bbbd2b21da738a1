// SPDX-License-Identifier: Apache-2.0
// Machine code of the pieces of products with quantised weights: made on first use, shared by all of the process. Thread-safe.
#pragma once

#include "codegen/matmul/matvec.h"
#include "loop/gguf.h"

namespace npugraph::codegen {

// `count` blocks, one after the other, as f32.
using DequantizeFunction = void(const void* blocks, int64_t count, float* to);

DequantizeFunction* dequantize_code(const target::Target& target, loop::BlockType type);

// Matrix-vector products with a matrix of blocks, read once from where they lie; `vectors` is at most kMostVectors. The
// vectors are f32 or, with one digit, as digits_code() writes them. Sums in f32, in an order that depends on k alone.
RowsMatvecFunction* quant_matvec_code(const target::Target& target, loop::BlockType type, int vectors, bool by_digits);

}  // namespace npugraph::codegen
