// SPDX-License-Identifier: Apache-2.0
// Weights in the blocks of GGUF files (format.h), and as torch packs them in 4 bits (loop/int4.h), as operands of tasks:
// they are read from where they lie, and take their values in registers. Sizes at run time.
#pragma once

#include <string_view>

#include "abi/task.h"
#include "codegen/task/row_count.h"
#include "target/target.h"

namespace npugraph::codegen {

// Whether a text says what make_quant() makes.
bool is_quant_text(std::string_view text);

// A task from its text, whose first line is one of
//
//   npugraph.quant 1 linear q4_1          C[m, n] = sum over k of x[m, k] * w[n, k], sums in f32
//   npugraph.quant 1 linear q4_1 int8     the same with x rounded to 8 bits: for each 32 elements of a row one scale, the
//                                         largest magnitude / 127
//   npugraph.quant 1 rows q8_0            y[.., k] = w[index[..], k]
//   npugraph.quant 1 packed 64 halves 32  a product with weights of 4 bits, packed so; 32 of them, along k, share a scale
//
// The last word, or the last but one, names the blocks. Behind the line of a product follows the text of what happens to the
// sums, a kernel as in MatmulSpec::epilogue. Its buffers are x (f32, bf16 or f16), the blocks [n, bytes] (u8, contiguous
// along bytes) and those of the kernel but the first; of a packed product x, the weights [n, k / 2] (u8, contiguous), scales
// and zeros [k / group, n, 2] (of the type of x, contiguous) and those of the kernel but the first. Buffers of `rows` are the blocks, the index (i64), and y (f32, bf16 or
// f16, row-major); an index outside of the rows is an error, found before anything is written.
// UserError for any other text.
ng_task make_quant(std::string_view text, const target::Target& target, RowCount rows = RowCount::kFixed);

}  // namespace npugraph::codegen
