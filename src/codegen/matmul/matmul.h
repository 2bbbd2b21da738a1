// SPDX-License-Identifier: Apache-2.0
// Matrix products as tasks: C[.., m, n] = sum over k of A[.., m, k] * B, sums in f32 (exact in i32 where both are i8), sizes at
// run time.
//
// Leading dimensions are a batch, which A or B may lack or repeat. Nothing is assumed of the strides of A and B, but products
// are fast where A is contiguous along k and B along k or n. The order of a sum depends on sizes and strides alone.
#pragma once

#include <optional>
#include <vector>

#include "abi/task.h"
#include "codegen/matmul/blocks.h"
#include "codegen/task/row_count.h"
#include "loop/kernel.h"
#include "target/target.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

// Elements of A, B and C are f32, bf16 or f16; those of B also i8. Where those of A are i8 too, there is an epilogue, and B is
// contiguous along k; the processor needs Target::int8_dot.
struct MatmulSpec {
  DType a = DType::kF32;
  DType b = DType::kF32;
  DType c = DType::kF32;  // without an epilogue
  bool b_is_nk = true;    // the last two dimensions of B: [n, k], as in nn.Linear, or [k, n]

  // What happens to the sums before they are stored. Buffer 0 of the kernel are the sums, dense [rows, n], where rows
  // counts through all leading dimensions and m. Its body is a loop over rows with one vector loop over columns in it and
  // statements before that, none of which can fail; no locals, reductions or scans. Its extents are not looked at. It may
  // store to more than one buffer, but nothing that A or B hold.
  // Buffers of the task: A, B, then those of the kernel but the first; scalars those of the kernel. Without an epilogue: A,
  // B, C, which is contiguous along n.
  std::optional<loop::Kernel> epilogue;

  // One of matmul_blocks(), instead of the one that costs least.
  std::optional<MatmulBlocks> blocks = {};
};

inline DType sums_type(const MatmulSpec& spec) { return spec.a == DType::kI8 ? DType::kI32 : DType::kF32; }

// The ways to cut a product of these buffers among which the cheapest is taken, that one first; none where the buffers do not
// fit.
std::vector<MatmulBlocks> matmul_blocks(const MatmulSpec& spec, const target::Target& target, const ng_call& call);

// UserError where the spec cannot be generated.
ng_task make_matmul(const MatmulSpec& spec, const target::Target& target);

// How products of one A follow each other. Apart, none may store what another one reads. In step, their B are alike, and the
// epilogue of one may read what those before it store, at each place of the sums what they store for that place, and overwrite
// it there.
enum class Order : uint8_t { kApart, kInStep };

// Products of one A as one task: A, then the other buffers of each; the scalars of each. What each computes is what it would
// compute by itself.
ng_task make_matmuls(const std::vector<MatmulSpec>& specs, const target::Target& target,
                     RowCount rows = RowCount::kFixed, Order order = Order::kApart);

}  // namespace npugraph::codegen
