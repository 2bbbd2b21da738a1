// SPDX-License-Identifier: Apache-2.0
// Machine code of the pieces of products with quantised weights: made on first use, shared by all of the process. Thread-safe.
#pragma once

#include "codegen/matvec.h"
#include "codegen/quant_block.h"

namespace npugraph::codegen {

// `count` blocks, one after the other, as f32.
using DequantizeFunction = void(const void* blocks, int64_t count, float* to);

// Elements of a vector in groups of 32: element = scale * code, with codes from -127 to 127. First the codes of a vector, then
// a scale in f32 for each group.
inline constexpr int kGroup = 32;
inline int64_t bytes_of_codes(int64_t k) { return k + k / kGroup * 4; }

DequantizeFunction* dequantize_code(const target::Target& target, BlockType type);

// Matrix-vector products with a matrix of blocks, read once from where they lie; `vectors` is at most kMostVectors. The
// vectors are f32, or codes if `by_codes`, which takes Target::int8_dot. Sums in f32, in an order that depends on k alone.
RowsMatvecFunction* quant_matvec_code(const target::Target& target, BlockType type, int vectors, bool by_codes);

}  // namespace npugraph::codegen
