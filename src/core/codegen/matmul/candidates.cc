// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "codegen/matmul/amx_tile.h"
#include "codegen/matmul/matvec.h"
#include "codegen/matmul/plan.h"
#include "codegen/task/work_items.h"
#include "target/costs.h"

namespace npugraph::codegen {
namespace {

// The size of equal parts, at most `most`, which is a multiple of 16. So is the size, unless there is only one part.
int64_t part_of(int64_t whole, int64_t most) {
  if (whole <= most) return std::max<int64_t>(whole, 1);
  return round_up(divide_up(whole, divide_up(whole, most)), 16);
}

// Bytes of rows of A that a work item of AMX goes through for each tile or panel of B, and how many the L2 cache
// keeps.
int64_t bytes_of_rows(const MatmulPlan& plan, int64_t rows) { return rows * plan.steps * 4; }
int64_t kept_bytes(const target::Target& target) { return target.l2_bytes / 2; }

// Memory that is a multiple of this apart shares a place in the L1 cache.
constexpr int64_t kFarApart = 4096;
// Columns of B for which it pays to copy A.
constexpr int64_t kManyColumns = 512;

// Whether the rows that a tile reads evict each other from the L1 cache if they are `apart` bytes apart.
bool evict(int64_t apart, const MatmulPlan& plan, const target::Target& target) {
  if (plan.shape.amx) return apart % kFarApart == 0;
  const int64_t places = kFarApart / std::gcd(apart, kFarApart), ways = target.l1_bytes / kFarApart;
  return divide_up(plan.shape.rows, places) > ways;
}

// Without an instruction for quads, tiles would take the bytes of each quad apart again and again.
TileKind kind_of_integers(const MatmulPlan& plan, const target::Target& target) {
  if (plan.has_tiles() && !target.int8_dot && !target.amx) return TileKind::kI16Pairs;
  return plan.a.dtype == DType::kI8 ? TileKind::kI8Quads : TileKind::kU8Quads;
}

// Sets the fields that follow from the form.
MatmulPlan with_form(MatmulPlan plan, Form form, const target::Target& target) {
  static_cast<MatmulBlocks&>(plan) = {.form = form, .tile_rows = plan.m};
  // Tiles may take i8 as bf16, which holds it exactly.
  const bool as_bf16 = plan.b.dtype == DType::kBF16 || (plan.b.dtype == DType::kI8 && form == Form::kPackA);
  const bool pairs = plan.a.dtype == DType::kBF16 && as_bf16 && target.bf16_dot && form != Form::kColumnsMatvec;
  if (plan.a.dtype == DType::kI8 || plan.a.dtype == DType::kU8)
    plan.kind = kind_of_integers(plan, target);
  else
    plan.kind = pairs ? TileKind::kBf16Pairs : TileKind::kF32;
  plan.shape = tile_shape(target, plan.kind);
  plan.steps = divide_up(plan.k, plan.elements_of_step());
  // The last step of an odd row is partly outside of it.
  const bool odd = plan.k % plan.elements_of_step() != 0;
  plan.dense_a = plan.a.column != size_of(plan.a.dtype) || plan.converts(plan.a.dtype) || (plan.has_tiles() && odd);
  plan.stage_b = plan.converts(plan.b.dtype) || odd;
  // AMX reads cut rows of A faster (TileFunction).
  plan.cuts_a = plan.shape.amx && form == Form::kPackB;
  plan.dense_a = plan.dense_a || plan.cuts_a;
  plan.dense_a = plan.dense_a || (form == Form::kPackB && plan.n >= kManyColumns && evict(plan.a.row, plan, target));
  // Without AMX, tiles of kPackB read their rows more slowly than any cache gives them.
  plan.rows_last = (plan.shape.amx || form == Form::kPackA) && bytes_of_rows(plan, plan.m) > kept_bytes(target);
  return plan;
}

using Plans = std::vector<MatmulPlan>;

void add(Plans& plans, const MatmulPlan& plan) {
  const auto is_it = [&](const MatmulPlan& known) { return known.blocks() == plan.blocks(); };
  if (std::none_of(plans.begin(), plans.end(), is_it)) plans.push_back(plan);
}

void add_matvec(Plans& plans, MatmulPlan plan) {
  plan.block_rows = std::max<int64_t>(plan.m, 1);
  plan.block_columns = plan.form == Form::kRowsMatvec ? 16 : 64;
  add(plans, plan);
}

// Steps of rows that stay in the L1 cache on AMX; fewer if few panels pass, so that the next steps come sooner.
int64_t amx_steps(int64_t panels) { return panels > kFewPanels ? kAmxSteps : 128; }
constexpr int64_t kVectorTileColumns = 48;  // without AMX

// Columns of a block of kPackA: whole tiles, and whole vectors of C.
std::vector<int64_t> columns_of_a(const MatmulPlan& plan) {
  if (!plan.shape.amx) return {kVectorTileColumns};
  return plan.n < 4 * kMostTileColumns ? std::vector<int64_t>{kAmxRows}
                                       : std::vector<int64_t>{kAmxRows, kMostTileColumns};
}

// Adds blocks of as many panels of A as sums have room for, down to one.
void add_pack_a(Plans& plans, MatmulPlan plan, const target::Target& target) {
  const int64_t most_rows = plan.shape.amx ? kMostSums / kMostTileColumns : 128;
  const std::vector<int64_t> widths = columns_of_a(plan);
  const int64_t of_cache = target.l2_bytes / 2 / (most_rows * 4), staged = kStagedBytes / (plan.shape.rows * 4);
  int64_t most = std::min(std::max<int64_t>(of_cache, 128), staged) / 16 * 16;
  const int64_t rows_of_panel = plan.shape.columns();
  plan.stage_b = plan.stage_b || (plan.panels() > 1 && evict(plan.b.row, plan, target));
  if (plan.shape.amx) {
    if (plan.panels() > kFewPanels) plan.shape.passing = Passing::kPanel;
    most = amx_steps(plan.panels());
  }
  for (const int64_t steps : {most, most / 2}) {
    plan.block_steps = part_of(plan.steps, steps);
    for (int64_t blocks = divide_up(plan.panels() * rows_of_panel, most_rows); blocks <= plan.panels(); ++blocks) {
      const int64_t panels = divide_up(plan.panels(), blocks);
      plan.block_rows = panels * rows_of_panel;
      if (plan.shape.amx) plan.shape.fetched_rows = rows_for_each(plan.shape.rows, panels);
      for (const int64_t columns : widths) {
        plan.block_columns = columns;
        add(plans, plan);
      }
    }
  }
}

// Rows that do not fill a vector may be matrix-vector products.
void add_tiles_of_a(Plans& plans, MatmulPlan plan, const target::Target& target) {
  const int64_t beyond = plan.m % plan.shape.lanes;
  if (beyond > 0 && beyond <= kMostVectors && beyond < plan.m && !plan.widens_b()) {
    plan.tile_rows = plan.m - beyond;
    add_pack_a(plans, plan, target);
    plan.tile_rows = plan.m;
  }
  add_pack_a(plans, plan, target);
}

constexpr int kFetchedLines = 4;  // of rows of B that a tile prefetches

// If more panels are packed at once, longer pieces of rows of B are read, which makes memory faster.
void add_tiles_of_b(Plans& plans, MatmulPlan plan) {
  plan.shape.fetched_rows = kFetchedLines;
  if (plan.shape.amx) plan.shape.passing = Passing::kRows;
  for (const int64_t panels : {4, 2, 1}) {
    plan.block_columns = panels * plan.shape.columns();
    const int64_t tiles = std::max<int64_t>(divide_up(plan.m, plan.shape.rows), 1);
    const int64_t room = std::min(kMostTiles, kMostRowsOfTiles / plan.shape.rows / panels);
    // A part of a panel stays in the L1 cache.
    const int64_t most_steps = plan.shape.amx ? kMostPanelSteps / 4 : kMostPanelSteps / panels;
    for (const int64_t steps : {most_steps, most_steps / 2}) {
      plan.block_steps = part_of(plan.steps, steps);
      for (const int64_t parts : {1, 2, 4}) {
        plan.block_rows = divide_up(tiles, parts * divide_up(tiles, room)) * plan.shape.rows;
        add(plans, plan);
      }
    }
  }
}

// Nanoseconds of all multiplications in one thread.
double multiplications(const MatmulPlan& plan, const target::Target& target) {
  const target::Costs costs = target::costs_of(target);
  const double of_tiles = plan.shape.amx ? costs.amx_multiply : costs.multiply;
  const auto lanes = static_cast<double>(plan.shape.lanes);
  const auto n = static_cast<double>(plan.n), steps = static_cast<double>(plan.steps);
  const auto matvec = [&](int64_t vectors, double factor) {
    constexpr double kTotals = 6;  // to add up the lanes of each sum
    // Processors with AMX multiply pairs of bf16 in vectors at a third of the speed of f32.
    const double pairs = plan.shape.amx && plan.kind == TileKind::kBf16Pairs ? 3 : 1;
    return static_cast<double>(vectors) * n * (pairs * factor * steps / lanes + kTotals) * costs.multiply;
  };
  const auto parts = static_cast<double>(plan.has_tiles() ? divide_up(plan.steps, plan.block_steps) : 1);
  switch (plan.form) {
    case Form::kRowsMatvec: return matvec(plan.m, 1.3);
    case Form::kColumnsMatvec: return matvec(plan.m, 2);
    case Form::kPackA: {
      // A tile with one vector per step loads as much as it multiplies.
      constexpr double kNarrow = 1.2;
      const int64_t count = divide_up(plan.tile_rows, plan.shape.lanes);
      const double vectors = static_cast<double>(count) + (kNarrow - 1) * static_cast<double>(count % 2);
      const auto whole_n = static_cast<double>(round_up(plan.n, plan.shape.rows));
      return vectors * whole_n * (steps + 4 * parts) * of_tiles + matvec(plan.last_rows(), 1.3);
    }
    case Form::kPackB: {
      const int64_t last = plan.m - (plan.row_blocks() - 1) * plan.block_rows;
      const int64_t rows = (plan.row_blocks() - 1) * plan.block_rows + round_up(last, plan.shape.rows);
      const auto vectors = static_cast<double>(divide_up(plan.n, plan.shape.columns()) * plan.shape.vectors);
      const bool in_l1 = plan.block_rows * plan.block_columns * 4 <= target.l1_bytes;
      const double of_sums = in_l1 ? 0 : parts * 2 * lanes * 4 * costs.l2_byte;  // of a vector: read and written
      return static_cast<double>(rows) * vectors * ((steps + 4 * parts) * of_tiles + of_sums);
    }
  }
  return 0;
}

// Instructions that pack a vector of B.
constexpr double kPacking = 5;

// Adjacent bytes of a row of B that are read one after the other, if rows of B are contiguous along n. The columns of a
// matrix-vector product are assumed to be cut into kRanges ranges.
int64_t bytes_in_row(const MatmulPlan& plan) {
  if (plan.form == Form::kPackB) return plan.block_columns * size_of(plan.b.dtype);
  constexpr int64_t kRanges = 8, kMostColumns = 512;
  const int64_t blocks = divide_up(plan.column_blocks(), kRanges);
  return std::min(blocks * plan.block_columns, kMostColumns) * size_of(plan.b.dtype);
}

// Nanoseconds to read rows of A from the L3 cache, which is slower than AMX multiplies.
double rows_from_l3(const MatmulPlan& plan, const target::Target& target) {
  if (!plan.shape.amx || !plan.has_tiles() || bytes_of_rows(plan, plan.block_rows) <= kept_bytes(target)) return 0;
  const auto bytes = static_cast<double>(bytes_of_rows(plan, plan.tile_rows));
  return bytes * static_cast<double>(plan.column_blocks()) * target::costs_of(target).l3_byte;
}

// Nanoseconds for a byte of B that another block of rows has read before.
double byte_again(const MatmulPlan& plan, const target::Target& target) {
  const int64_t columns = plan.rows_last ? plan.n : plan.block_columns;
  const int64_t between = bytes_of_rows(plan, plan.block_rows) + columns * plan.k * size_of(plan.b.dtype);
  return target::byte_cost(target, static_cast<double>(between));
}

// Nanoseconds to move and pack B in one thread.
double transfers(const MatmulPlan& plan, const target::Target& target) {
  const target::Costs costs = target::costs_of(target);
  const auto bytes = static_cast<double>(plan.n) * static_cast<double>(plan.k * size_of(plan.b.dtype));
  // A single matrix is assumed to be the weights of a layer, which come from memory.
  const auto batches = static_cast<double>(plan.batches);
  const double once = bytes * (batches == 1 ? costs.memory_byte : target::byte_cost(target, bytes * batches));
  // Nanoseconds to pack B once; each block of rows does it.
  const double packing = kPacking * static_cast<double>(plan.n * plan.steps / plan.shape.lanes) * costs.instruction;
  const double again = static_cast<double>(plan.row_blocks() - 1 + (plan.last_rows() > 0 && plan.has_tiles() ? 1 : 0));
  // The processor has not prefetched the first bytes of a piece of a row.
  constexpr double kBegin = 192;
  const bool in_pieces = plan.form == Form::kColumnsMatvec || plan.form == Form::kPackB;
  const double pieces = in_pieces ? 1 + kBegin / static_cast<double>(bytes_in_row(plan)) : 1;
  const double packed = plan.form == Form::kPackB ? static_cast<double>(plan.row_blocks()) * packing : 0;
  return once * pieces + again * bytes * byte_again(plan, target) + packed;
}

// Nanoseconds until what the epilogue reads is there: pieces of rows as long as a block has columns.
double waits_of_epilogue(const MatmulPlan& plan, const target::Target& target) {
  const auto buffers = static_cast<double>(plan.end_buffer - plan.first_end - 1);
  return buffers * static_cast<double>(plan.m * plan.column_blocks()) * target::costs_of(target).line;
}

// Nanoseconds of all. Tiles of kPackA prefetch the next weights while they multiply; matrix-vector products do so in
// part. Tiles of kPackB wait until their panels are packed.
double together(const MatmulPlan& plan, double busy, double rows, double waits) {
  switch (plan.form) {
    case Form::kPackA: return std::max(busy, rows + waits);
    case Form::kPackB: return std::max(busy, rows) + waits;
    default: return std::max(busy, waits + busy / 4);
  }
}

// How many matrices of the batch one thread computes, in time.
double batches_of_thread(const MatmulPlan& plan) {
  const int64_t items = std::max<int64_t>(plan.items(), 1);
  return static_cast<double>(plan.batches) * target::share_of(items, 1) / static_cast<double>(items);
}

}  // namespace

Plans candidates_of(const MatmulPlan& plan, const target::Target& target) {
  const bool k_is_dense = plan.b.column == size_of(plan.b.dtype);
  const bool n_is_dense = plan.b.row == size_of(plan.b.dtype);
  Plans plans;
  if (plan.m <= kMostVectors && (k_is_dense || n_is_dense))
    add_matvec(plans, with_form(plan, k_is_dense ? Form::kRowsMatvec : Form::kColumnsMatvec, target));
  // One row, or none, needs no tiles.
  if (plan.m <= 1 && !plans.empty()) return plans;
  if (k_is_dense)
    add_tiles_of_a(plans, with_form(plan, Form::kPackA, target), target);
  else
    add_tiles_of_b(plans, with_form(plan, Form::kPackB, target));
  return plans;
}

double cost_of_sums(const MatmulPlan& plan, const target::Target& target) {
  const double busy = multiplications(plan, target), waits = transfers(plan, target);
  return together(plan, busy, rows_from_l3(plan, target), waits) * batches_of_thread(plan);
}

double cost_of(const MatmulPlan& plan, const target::Target& target) {
  return cost_of_sums(plan, target) + waits_of_epilogue(plan, target) * batches_of_thread(plan);
}

}  // namespace npugraph::codegen
