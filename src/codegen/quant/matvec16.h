// SPDX-License-Identifier: Apache-2.0
// Matrix-vector products with quantised weights, 16 rows at a time: what scales need is computed for all rows at once, and
// products of codes are whole numbers.
#pragma once

#include "codegen/matmul/matvec.h"
#include "codegen/quant/digits.h"

namespace npugraph::codegen {

// Whether the target has what they need.
bool has_quant_matvec16(const target::Target& target);

// One vector as digits_code() writes it, and at least kRowsAtOnce rows that lie less than 2^27 bytes apart. The order of sums
// depends on the number of blocks alone. Made on first use, shared by the process. Thread-safe.
RowsMatvecFunction* quant_matvec16_code(const target::Target& target, loop::BlockType type, int digits);

}  // namespace npugraph::codegen
