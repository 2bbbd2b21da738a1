// SPDX-License-Identifier: Apache-2.0
// The plan by which a product is computed, and the candidates among which it is chosen. It depends on sizes, strides
// and the target alone.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "codegen/matmul/matmul.h"
#include "codegen/matmul/matvec.h"
#include "codegen/matmul/tile.h"

namespace npugraph::codegen {

// A batch of matrices in memory; strides in bytes.
struct MatrixPlace {
  int64_t row = 0;
  int64_t column = 0;
  std::vector<int64_t> batch;
  DType dtype = DType::kF32;

  int64_t offset(int64_t batch_index, const std::vector<int64_t>& sizes) const;
};

// Sizes of the memory on the stack of a thread that runs a plan.
inline constexpr int64_t kMostSums = 256 * 128;    // kPackA: sums of a block
inline constexpr int64_t kMostTileColumns = 128;   // kPackA: columns of a block
inline constexpr int64_t kStagedBytes = 64 << 10;  // copied rows of a tile
inline constexpr int64_t kMostTiles = 64;          // kPackB: tiles of a block in one panel
inline constexpr int64_t kMostRowsOfTiles = 2304;  // kPackB: rows of the tiles of a block in all panels
inline constexpr int64_t kMostPanelSteps = 1024;   // kPackB: steps of the parts of all panels

// A buffer behind B with a row of n adjacent elements for each row of sums. Tiles prefetch these rows.
struct EndRows {
  size_t buffer;
  int64_t stride, element;  // in bytes
};

struct MatmulPlan : MatmulBlocks {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  std::vector<int64_t> batch_sizes;
  int64_t batches = 1;
  size_t first_buffer = 1;  // of the task: B, then those of the epilogue or C, up to end_buffer
  size_t first_end = 2;     // the first buffer behind B
  size_t end_buffer = 3;
  size_t first_scalar = 0;  // of the epilogue
  MatrixPlace a;
  MatrixPlace b;  // row: along n
  MatrixPlace c;  // without an epilogue

  TileKind kind = TileKind::kF32;
  TileShape shape;
  bool dense_a = false;    // A is first copied to dense rows of the type that is multiplied
  bool cuts_a = false;     // dense rows of A are cut (TileFunction), tile after tile
  bool in_place = false;   // kPackA: panels take the place of A's rows
  bool stage_b = false;    // kPackA: rows of B are copied (and converted) before they are multiplied
  bool tuned = false;      // the blocks are a choice of TunedProducts
  bool rows_last = false;  // work items go through the columns first, because the rows of A do not fit in the cache
  int64_t steps = 0;       // of the whole sum
  std::vector<EndRows> end_rows;
  int64_t slices_of_row = 0;    // of the kernel that computes B (MatmulSpec); 0: B is a buffer
  size_t result_of_slices = 0;  // among the buffers of that kernel

  const MatmulBlocks& blocks() const { return *this; }
  bool has_tiles() const { return form == Form::kPackA || form == Form::kPackB; }
  DType multiplied() const {
    if (is_quads(kind)) return DType::kI8;
    if (kind == TileKind::kI16Pairs) return DType::kI16;
    return kind == TileKind::kF32 ? DType::kF32 : DType::kBF16;
  }
  // Whether elements of A or B, which are of type `given`, are converted before they are multiplied. u8 is not.
  bool converts(DType given) const { return !is_quads(kind) && given != multiplied(); }
  // Whether B is widened from i8 to 16 bits for tiles. Matrix-vector products do not support that.
  bool widens_b() const {
    return b.dtype == DType::kI8 && (kind == TileKind::kBf16Pairs || kind == TileKind::kI16Pairs);
  }
  bool computes_b() const { return slices_of_row > 0; }
  // Rows of B that are computed at once, into memory that one thread holds.
  int64_t computed_rows() const { return std::max(shape.rows, kMostVectors); }
  int64_t computed_bytes() const { return computed_rows() * b.row; }
  int64_t elements_of_step() const { return 4 / size_of(multiplied()); }
  int64_t last_rows() const { return m - tile_rows; }
  int64_t row_blocks() const { return (tile_rows + block_rows - 1) / block_rows; }
  int64_t column_blocks() const { return (n + block_columns - 1) / block_columns; }
  int64_t items() const { return batches * row_blocks() * column_blocks(); }
  int64_t panels() const { return (tile_rows + shape.columns() - 1) / shape.columns(); }
  int64_t panel_bytes() const { return steps * shape.columns() * 4; }  // of A or B, whichever is packed
  int64_t dense_row_bytes() const { return row_bytes(steps); }
  // The same for copied rows of B, of a part of the sums; AMX takes them without a distance.
  int64_t staged_row_bytes(int64_t of_steps) const { return shape.amx ? of_steps * 4 : row_bytes(of_steps); }
  int64_t dense_batch_bytes() const;  // of one matrix
  int64_t dense_a_bytes() const;
  // Bytes from the panels of one matrix to those of the next.
  int64_t panels_bytes() const { return in_place ? m * steps * 4 : panels() * panel_bytes(); }
  // kI8Quads: bytes of the numbers (i32) that the sums of each row of A start from.
  int64_t starts_bytes() const;
  bool has_starts() const;
  // Where the memory for computed rows of B begins.
  int64_t workspace_before_b() const;
  int64_t workspace() const;

  // Bytes from one dense row of that many steps to the next. Rows are no multiple of 1 KB apart, because they would
  // share few places in a cache.
  static int64_t row_bytes(int64_t steps);
};

// Completes a plan whose sizes and places are known, with these blocks or, without any, with those that were chosen by
// measurement (tuned.h), else with those that cost least.
// Returns false if the blocks are not among its candidates (candidates_of()).
bool complete(MatmulPlan& plan, const target::Target& target, const std::optional<MatmulBlocks>& blocks);

// Products of one A, as make_matmuls takes them.
struct MatmulPlans {
  std::vector<MatmulPlan> plans;
  Order order = Order::kApart;
  // Whether their items run as those of one product: the copies and panels of A are the same for all of them and, in
  // step, items are the same parts of C. Otherwise the products run one after the other.
  bool as_one = true;

  int64_t workspace() const;
};

// Returns nullopt if the buffers do not fit each other or the specs, or the blocks of a spec do not fit them.
std::optional<MatmulPlans> plan_matmuls(const std::vector<MatmulSpec>& specs, const target::Target& target,
                                        const ng_call& call, Order order = Order::kApart);

// The plans among which a product of given sizes and strides chooses, and their costs.

// On AMX, more panels of A than this pass through the L1 cache, in which rows of B stay.
inline constexpr int64_t kFewPanels = 4;

// Complete plans of a product whose sizes and places are known, the usual one first.
std::vector<MatmulPlan> candidates_of(const MatmulPlan& plan, const target::Target& target);

// Rough costs in nanoseconds, without those that are the same for all candidates: of all, and without the epilogue.
double cost_of(const MatmulPlan& plan, const target::Target& target);
double cost_of_sums(const MatmulPlan& plan, const target::Target& target);

}  // namespace npugraph::codegen
