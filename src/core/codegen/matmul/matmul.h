// SPDX-License-Identifier: Apache-2.0
// Matrix products as tasks: C[.., m, n] = sum over k of A[.., m, k] * B. Sums are in f32 (exact in i32, which wraps, if
// both are integers), and sizes are known at run time.
//
// Leading dimensions are a batch, which A or B may lack or repeat. The strides of A and B are arbitrary, but products
// are fast if A is contiguous along k and B along k or n. The order of a sum depends on sizes and strides of A and B
// alone: an epilogue does not change it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "abi/task.h"
#include "codegen/task/planned_task.h"
#include "loop/kernel.h"
#include "target/target.h"
#include "tensor/dtype.h"

namespace npugraph::codegen {

// The blocks that a matrix product is cut into. matmul_blocks() lists the candidates, of which the cheapest is taken.

// Which operand moves through caches once (the rows of a tile, or a matrix in place) and which is packed.
enum class Form : uint8_t {
  kRowsMatvec,     // few rows of A; B contiguous along k
  kColumnsMatvec,  // few rows of A; B contiguous along n
  kPackA,          // rows of tiles are the columns of C: B is broadcast in place, tiles are transposed
  kPackB,          // rows of tiles are the rows of C: a work item packs a few panels of B at a time, into its cache
};

struct MatmulBlocks {
  Form form = Form::kPackA;
  // Rows of C that tiles compute. With kPackA, there may be rows behind them, too few for a vector.
  int64_t tile_rows = 0;
  int64_t block_rows = 0;  // of C, of one work item
  int64_t block_columns = 0;
  int64_t block_steps = 0;  // of a part of the sum that is computed at once
  bool operator==(const MatmulBlocks&) const = default;
};

std::string str(const MatmulBlocks& blocks);

// Elements of A, B and C are f32, bf16 or f16; those of B also i8. If B is i8, those of A also i8 or u8;
// then an epilogue is required, and B is contiguous along k.
struct MatmulSpec {
  DType a = DType::kF32;
  DType b = DType::kF32;
  DType c = DType::kF32;  // without an epilogue
  bool b_is_nk = true;    // the last two dimensions of B: [n, k], as in nn.Linear, or [k, n]

  // A kernel that computes B as slices (loop/slices.h) of a dense matrix [n, k], each of which is a row or divides one.
  // The product runs it for the rows that it reads next, so B is never whole in memory. The buffers of the task are
  // then A, those of this kernel except the result, and those that follow B. Its result is of type `b`, a float, and
  // `b_is_nk` holds.
  std::optional<loop::Kernel> factor = {};

  // A kernel that takes the sums and stores the results. Its buffer 0 holds the sums, dense [rows, n], where rows
  // counts through all leading dimensions and m. Its body is a loop over rows with one vector loop over columns in it
  // and statements before that, none of which can fail; no locals, reductions or scans. Its extents are ignored. It may
  // store to more than one buffer, but not to memory of A or B. Buffers of the task: A, B, then those of the kernel
  // except the first; its scalars are those of the kernel. Without an epilogue: A, B and C, which is contiguous along
  // n.
  std::optional<loop::Kernel> epilogue;

  // One of matmul_blocks(), instead of the one that costs least.
  std::optional<MatmulBlocks> blocks = {};
};

inline bool is_integer_product(const MatmulSpec& spec) { return spec.a == DType::kI8 || spec.a == DType::kU8; }
inline DType sums_type(const MatmulSpec& spec) { return is_integer_product(spec) ? DType::kI32 : DType::kF32; }

// The ways to cut a product of these buffers, the one that is taken first; empty if the buffers do not fit.
std::vector<MatmulBlocks> matmul_blocks(const MatmulSpec& spec, const target::Target& target, const ng_call& call);

// Throws UserError if the spec cannot be generated.
ng_task make_matmul(const MatmulSpec& spec, const target::Target& target);

// The order of products of one A. Apart, no product may store to memory that another one reads. In step, their B are
// alike, and at each place of the sums, the epilogue of a product may read and overwrite the elements that the products
// before it store for that place.
enum class Order : uint8_t { kApart, kInStep };

// Products of one A as one task. Its buffers are A, then the other buffers of each product, and its scalars those of
// each product. Each product computes the same as by itself.
ng_task make_matmuls(const std::vector<MatmulSpec>& specs, const target::Target& target,
                     RowCount rows = RowCount::kFixed, Order order = Order::kApart);

}  // namespace npugraph::codegen
