// SPDX-License-Identifier: Apache-2.0
// Tasks whose operands are weights in the blocks of GGUF files (loop/gguf.h), or as torch packs them in 4 bits
// (loop/int4.h). The weights are read in place and decoded as they are used. Sizes are known at run time.
#pragma once

#include <string_view>

#include "abi/task.h"
#include "codegen/task/planned_task.h"
#include "loop/gguf.h"
#include "loop/int4.h"
#include "loop/kernel.h"
#include "target/target.h"

namespace npugraph::codegen {

// Whether a text is meant for make_quant().
bool is_quant_text(std::string_view text);

// A task from its text, whose first line is one of
//
//   npugraph.quant 1 linear q4_1          C[m, n] = sum over k of x[m, k] * w[n, k], sums in f32
//   npugraph.quant 1 linear q4_1 int8     the same with x rounded to 8 bits: each 32 elements of a row have one scale,
//                                         the largest magnitude / 127
//   npugraph.quant 1 rows q8_0            y[.., k] = w[index[..], k]
//   npugraph.quant 1 packed 64 halves 32  a product with weights of 4 bits in this packing; 32 of them, along k, share
//                                         a scale
//
// The word behind `linear` or `rows` names the format of the blocks. The line of a product is followed by the text of a
// kernel that takes the sums, as MatmulSpec::epilogue.
// Buffers of `linear`: x (f32, bf16 or f16), the blocks [n, bytes] (u8, contiguous along bytes), and those of the
// kernel except the first. Buffers of `packed`: x, the weights [n, k / 2] (u8, contiguous), scales and zeros [k /
// group, n, 2] (of the type of x, contiguous), and those of the kernel except the first. Buffers of `rows`: the blocks,
// the index (i64), and y (f32, bf16 or f16, row-major); an index outside of the rows is an error, found before anything
// is written. Throws UserError for any other text.
ng_task make_quant(std::string_view text, const target::Target& target, RowCount rows = RowCount::kFixed);

// The tasks behind make_quant(). Internal to codegen.

struct QuantLinearSpec {
  loop::BlockType type = loop::BlockType::kQ4_0;
  bool by_codes = false;
  loop::Kernel epilogue;
};

struct Int4LinearSpec {
  loop::Int4Packing packing;
  int64_t group = 32;  // steps that share a scale and a zero
  loop::Kernel epilogue;
};

ng_task make_quant_linear(const QuantLinearSpec& spec, const target::Target& target, RowCount rows);
ng_task make_int4_linear(const Int4LinearSpec& spec, const target::Target& target, RowCount rows);
ng_task make_quant_rows(loop::BlockType type, const target::Target& target);

}  // namespace npugraph::codegen
