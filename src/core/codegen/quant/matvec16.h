// SPDX-License-Identifier: Apache-2.0
// Matrix-vector products with quantised weights, 16 rows at a time: scales are decoded for all of these rows at once,
// and products of codes are integers.
#pragma once

#include "codegen/matmul/matvec.h"
#include "codegen/quant/digits.h"

namespace npugraph::codegen {

// Whether the target has the instructions for them.
bool has_quant_matvec16(const target::Target& target);

// Takes one vector as digits_code() writes it, and at least kRowsAtOnce rows that are less than 2^27 bytes apart. The
// order of sums depends on the number of blocks alone. Made on first use, shared by the process. Thread-safe.
RowsMatvecFunction* quant_matvec16_code(const target::Target& target, loop::BlockType type, int digits);

}  // namespace npugraph::codegen
