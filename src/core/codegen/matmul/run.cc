// SPDX-License-Identifier: Apache-2.0
#include "codegen/matmul/run.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <tuple>

#include "base/plan_notes.h"
#include "codegen/matmul/copy.h"
#include "codegen/matmul/plan.h"
#include "codegen/task/work_items.h"

namespace npugraph::codegen {
namespace {

constexpr int64_t kMostColumns = 512;  // of a matrix-vector product
constexpr int64_t kMostPanelColumns = 32;
constexpr int64_t kLineBytes = 64;
constexpr int64_t kStripRows = 128;   // of C, of kPackB, that are written at a time
constexpr int64_t kTurnedRows = 256;  // of A that a work item turns

// Computes rows of B into memory of a thread.
class RowsOfB {
 public:
  RowsOfB(const MatmulPlan& plan, const SliceCode& code, const ng_call& call, char* memory)
      : p_(plan), code_(code), memory_(memory) {
    for (size_t i = plan.first_buffer; i < plan.first_end; ++i) data_.push_back(call.buffers[i].data);
    data_.insert(data_.begin() + static_cast<std::ptrdiff_t>(plan.result_of_slices), nullptr);
  }

  // Returns the first of `count` rows from `row` on, at most computed_rows(). They stay until the next call.
  const char* compute(int64_t row, int64_t count) {
    const int64_t dense = p_.k * size_of(p_.b.dtype);
    for (int64_t r = 0; r < count; ++r) {
      // The place of row 0 of a dense matrix that has this row where it is wanted.
      const auto first =
          reinterpret_cast<uintptr_t>(memory_ + r * p_.b.row) - static_cast<uintptr_t>((row + r) * dense);
      data_[p_.result_of_slices] = reinterpret_cast<void*>(first);
      code_.run(data_.data(), (row + r) * p_.slices_of_row, (row + r + 1) * p_.slices_of_row);
    }
    return memory_;
  }

 private:
  const MatmulPlan& p_;
  const SliceCode& code_;
  char* memory_;
  std::vector<void*> data_;  // of the kernel
};

class Run {
 public:
  Run(const MatmulPlan& plan, const MatmulCode& code, const ng_call& call)
      : p_(plan),
        code_(code),
        call_(call),
        elements_of_step_(plan.elements_of_step()),
        a_(static_cast<const char*>(plan.dense_a ? call.workspace : call.buffers[0].data)),
        b_(plan.computes_b() ? nullptr : static_cast<const char*>(call.buffers[plan.first_buffer].data)),
        starts_(reinterpret_cast<int32_t*>(static_cast<char*>(call.workspace) + plan.dense_a_bytes())),
        packed_(plan.in_place ? static_cast<char*>(call.buffers[0].data)
                              : static_cast<char*>(call.workspace) + plan.dense_a_bytes() + plan.starts_bytes()) {
    for (size_t i = plan.first_end; i < plan.end_buffer; ++i) ends_.push_back(call.buffers[i].data);
  }

  int64_t items() const { return p_.items(); }
  int64_t multiplications_each() const { return std::min(p_.block_rows, p_.tile_rows) * p_.block_columns * p_.k; }

  // Fills the parts of the workspace that the items read.
  void prepare() {
    if (items() == 0) return;
    if (p_.dense_a) make_a_dense();
    if (p_.has_starts()) sum_rows_of_a();
    if (p_.form == Form::kPackA) pack_a();
  }

  bool has_tiles() const { return p_.has_tiles(); }

  // `slots`: of memory for rows of B.
  void run_items(int64_t first, int64_t last, Slots& slots) {
    if (!p_.computes_b()) return run_items(first, last, nullptr);
    const int slot = slots.take();
    char* memory = static_cast<char*>(call_.workspace) + p_.workspace_before_b() + slot * p_.computed_bytes();
    RowsOfB rows(p_, *code_.factor, call_, memory);
    run_items(first, last, &rows);
    slots.give_back(slot);
  }

 private:
  // `computed`: null if B is a buffer.
  void run_items(int64_t first, int64_t last, RowsOfB* computed) {
    if (!p_.has_tiles()) return run_matvecs(first, last, computed);
    const AmxScope scope(code_.amx);
    for (int64_t i = first; i < last; ++i)
      p_.form == Form::kPackA ? run_pack_a(block(i), computed) : run_pack_b(block(i));
  }

  // A part of C that one thread computes.
  struct Block {
    int64_t batch, row, rows, column, columns;
  };

  // Items count through blocks of rows first, so that a part of B is used while it is in a cache; with `rows_last`
  // through blocks of columns.
  Block block(int64_t item) const {
    const int64_t rows = p_.row_blocks(), columns = p_.column_blocks();
    const int64_t batch = item / (rows * columns);
    item %= rows * columns;
    const int64_t row = (p_.rows_last ? item / columns : item % rows) * p_.block_rows;
    const int64_t column = (p_.rows_last ? item % columns : item / rows) * p_.block_columns;
    return {batch, row, std::min(p_.block_rows, p_.tile_rows - row), column, std::min(p_.block_columns, p_.n - column)};
  }

  // Prefetches what write() of these rows and columns touches.
  void fetch_ends(const Block& part) const {
    for (const EndRows& end : p_.end_rows) {
      const int64_t at = (part.batch * p_.m + part.row) * end.stride + part.column * end.element;
      prefetch_rows<2>(static_cast<const char*>(call_.buffers[end.buffer].data) + at, part.rows, end.stride,
                       part.columns * end.element);
    }
  }

  bool pairs() const { return p_.kind == TileKind::kBf16Pairs; }
  int64_t elements(int64_t steps) const { return elements_of_step_ * steps; }
  // Elements of a row from step `first` on, at most `steps` steps.
  int64_t elements_from(int64_t first, int64_t steps) const {
    return std::min(elements(steps), p_.k - elements(first));
  }

  void make_a_dense() {
    const int64_t turned_rows = turns_a() ? p_.m / p_.shape.columns() * p_.shape.columns() : 0;
    const int64_t turned_steps = turned_rows > 0 ? p_.k / elements(kCutSteps) * kCutSteps : 0;
    turn_a(turned_rows, turned_steps);
    for_items(*call_.host, p_.batches * p_.m, p_.k, [&](int64_t item) {
      const int64_t batch = item / p_.m, row = item % p_.m, first = row < turned_rows ? turned_steps : 0;
      const char* from = given_a(batch, row, first);
      if (first == p_.steps) return;
      if (p_.cuts_a) return cut_row(from, batch, row, first);
      copy_row(from, p_.a.dtype, p_.a.column, code_.widen_a, p_.k - elements(first), dense_at(batch, row, first),
               p_.multiplied(), elements(p_.steps - first));
    });
  }

  // The element of A at a step, before A is copied.
  const char* given_a(int64_t batch, int64_t row, int64_t step) const {
    return static_cast<const char*>(call_.buffers[0].data) + p_.a.offset(batch, p_.batch_sizes) + row * p_.a.row +
           elements(step) * p_.a.column;
  }
  char* dense_at(int64_t batch, int64_t row, int64_t step) const {
    char* of_batch = static_cast<char*>(call_.workspace) + batch * p_.dense_batch_bytes();
    if (!p_.cuts_a) return of_batch + row * p_.dense_row_bytes() + step * 4;
    const int64_t in_tile = row % p_.shape.rows;
    return of_batch + (row - in_tile) * cut_row_bytes() + in_tile * kCutBytes + step / kCutSteps * cut_stride();
  }

  // `first` is the first step of a cut.
  void cut_row(const char* from, int64_t batch, int64_t row, int64_t first) {
    const int64_t whole = p_.k / elements(kCutSteps) * kCutSteps, adjacent = size_of(p_.a.dtype);
    char* to = dense_at(batch, row, first);
    int64_t s = first;
    if (p_.a.column == adjacent) {
      for (; s < whole; s += kCutSteps, from += kCutBytes, to += cut_stride()) std::memcpy(to, from, kCutBytes);
    }
    for (; s < p_.steps; s += kCutSteps, from += elements(kCutSteps) * p_.a.column, to += cut_stride())
      copy_elements(from, p_.a.dtype, p_.a.column, elements_from(s, kCutSteps), to, p_.multiplied(),
                    elements(kCutSteps));
  }

  // Whether A is turned in blocks, because its elements are adjacent from row to row.
  bool turns_a() const { return code_.interleave_a != nullptr; }

  // Makes the first rows dense, up to a step: whole panels of whole cuts. Goes along the rows of memory, which the
  // processor then fetches ahead.
  void turn_a(int64_t rows, int64_t steps) {
    const int64_t cuts = steps / kCutSteps, strips = divide_up(rows, kTurnedRows);
    for_items(*call_.host, p_.batches * cuts * strips, kCutSteps * std::min(rows, kTurnedRows), [&](int64_t item) {
      const int64_t first_row = item % strips * kTurnedRows, end_row = std::min(first_row + kTurnedRows, rows);
      item /= strips;
      for (int64_t row = first_row; row < end_row; row += p_.shape.columns())
        turn_block(item / cuts, row, item % cuts * kCutSteps);
    });
  }

  void turn_block(int64_t batch, int64_t row, int64_t first) const {
    alignas(64) char panel[kCutSteps * kMostPanelColumns * 4];
    const int64_t lanes = p_.shape.lanes, step_bytes = p_.shape.columns() * 4;
    code_.interleave_a(given_a(batch, row, first), p_.a.column, kCutSteps, panel);
    for (int64_t s = 0; s < kCutSteps; s += lanes) {
      for (int64_t r = 0; r < p_.shape.columns(); r += lanes)
        code_.transpose(panel + s * step_bytes + r * 4, step_bytes, lanes, lanes, dense_at(batch, row + r, first + s),
                        a_row_stride());
    }
  }

  // Sums of products with B + 128 are too large. They start from numbers that compensate for that. Sums wrap.
  void sum_rows_of_a() {
    for_items(*call_.host, p_.batches * p_.m, p_.k, [&](int64_t item) {
      const auto* row = reinterpret_cast<const int8_t*>(a_row(item / p_.m, item % p_.m));
      uint32_t sum = 0;
      for (int64_t i = 0; i < p_.k; ++i) sum += static_cast<uint32_t>(row[i]);
      starts_[item] = static_cast<int32_t>(sum * uint32_t{0xffffff80});
    });
  }

  int64_t a_row_stride() const { return p_.cuts_a ? kCutBytes : p_.dense_a ? p_.dense_row_bytes() : p_.a.row; }
  int64_t cut_row_bytes() const { return round_up(p_.steps, kCutSteps) * 4; }
  // Bytes from 16 steps of a tile's rows to the next ones.
  int64_t cut_stride() const { return p_.cuts_a ? p_.shape.rows * kCutBytes : kCutBytes; }
  const char* a_row(int64_t batch, int64_t row) const {
    const int64_t of_batch = p_.dense_a ? batch * p_.dense_batch_bytes() : p_.a.offset(batch, p_.batch_sizes);
    return a_ + of_batch + row * (p_.cuts_a ? cut_row_bytes() : a_row_stride());
  }
  const char* b_at(int64_t batch, int64_t column, int64_t k) const {
    return b_ + p_.b.offset(batch, p_.batch_sizes) + column * p_.b.row + k * p_.b.column;
  }

  char* panel(int64_t batch, int64_t panel) const {
    return packed_ + batch * p_.panels_bytes() + panel * p_.panel_bytes();
  }
  // The last panel may have one vector per step.
  int64_t panel_columns(int64_t panel) const {
    return p_.tile_rows - panel * p_.shape.columns() <= p_.shape.lanes ? p_.shape.lanes : p_.shape.columns();
  }

  void pack_a_in_place() {
    const int64_t panels = p_.panels(), each = p_.steps * p_.shape.columns();
    for_items(*call_.host, p_.batches * panels, each,
              [&](int64_t i) { pack_in_place(panel(i / panels, i % panels), panel_columns(i % panels)); });
  }

  // Turns as many rows as the panel has columns into the panel: squares of them are transposed, and the rows of the
  // squares, which are steps of the panel, are put into the order of the panel.
  void pack_in_place(char* rows, int64_t columns) {
    alignas(64) char square[kMostPanelColumns * kMostPanelColumns * 4];
    const int64_t piece = columns * 4, row_bytes = p_.steps * 4;
    for (int64_t at = 0; at < row_bytes; at += piece) {
      for (int64_t r = 0; r < columns; r += p_.shape.lanes)
        code_.transpose(rows + r * row_bytes + at, row_bytes, p_.shape.lanes, columns, square + r * 4, piece);
      for (int64_t r = 0; r < columns; ++r) std::memcpy(rows + r * row_bytes + at, square + r * piece, piece);
    }
    transpose_in_place(rows, columns, row_bytes / piece, piece);
  }

  void pack_a() {
    if (p_.in_place) return pack_a_in_place();
    constexpr int64_t kSteps = 256;
    const int64_t parts = (p_.steps + kSteps - 1) / kSteps;
    for_items(*call_.host, p_.batches * p_.panels() * parts, kSteps * p_.shape.columns(), [&](int64_t item) {
      const int64_t first = item % parts * kSteps;
      item /= parts;
      const int64_t batch = item / p_.panels(), number = item % p_.panels();
      pack_part(batch, number, first, std::min(kSteps, p_.steps - first));
    });
  }

  void pack_part(int64_t batch, int64_t number, int64_t first, int64_t steps) {
    const int64_t lanes = p_.shape.lanes;
    const int64_t columns = panel_columns(number);
    const int64_t whole = steps / lanes * lanes;
    for (int64_t at = 0; at < columns; at += lanes) {
      const int64_t row = number * p_.shape.columns() + at;
      const int64_t count = std::min(lanes, p_.tile_rows - row);
      if (count <= 0) return;
      const char* from = a_row(batch, row) + first * 4;
      char* to = panel(batch, number) + (first * columns + at) * 4;
      code_.transpose(from, a_row_stride(), count, whole, to, columns * 4);
      for (int64_t s = whole; s < steps; ++s) {
        for (int64_t r = 0; r < count; ++r)
          std::memcpy(to + (s * columns + r) * 4, from + r * a_row_stride() + s * 4, 4);
      }
    }
  }

  // Copies the first `count` of a tile's rows from `from` on to `staged`, staged_row_bytes() apart; missing rows repeat
  // the last one.
  void stage(const char* from, const MatrixPlace& place, WidenFunction* widen, int64_t row_stride, int64_t count,
             int64_t first, int64_t steps, char* staged) const {
    if (code_.copy != nullptr && steps % kCutSteps == 0 && elements_from(first, steps) == elements(steps))
      return code_.copy(from, row_stride, count, steps / kCutSteps, staged);
    const int64_t each = elements_from(first, steps), padded = elements(steps), to_next = p_.staged_row_bytes(steps);
    for (int64_t r = 0; r < p_.shape.rows; ++r) {
      copy_row(from + std::min(r, count - 1) * row_stride, place.dtype, place.column, widen, each, staged + r * to_next,
               p_.multiplied(), padded);
    }
  }

  // acc: [panel][column of C][row of C].
  void run_pack_a(const Block& block, RowsOfB* computed) {
    alignas(64) float acc[kMostSums];
    const int64_t first_panel = block.row / p_.shape.columns();
    const int64_t end_panel = (block.row + block.rows + p_.shape.columns() - 1) / p_.shape.columns();
    const int64_t acc_of_panel = p_.block_columns * p_.shape.columns();
    if (starts_sums()) {
      for (int64_t number = first_panel; number < end_panel; ++number)
        start_sums(block.batch, number, acc + (number - first_panel) * acc_of_panel);
    }
    // One part of the sums at least: without steps, they are zero.
    const int64_t whole = std::max<int64_t>(p_.steps, 1);
    for (int64_t c = 0; computed != nullptr && c < block.columns; c += p_.shape.rows) {
      const char* rows = computed->compute(block.column + c, std::min<int64_t>(p_.shape.rows, block.columns - c));
      for (int64_t first = 0; first < whole; first += p_.block_steps)
        multiply_panels(block, c, first, rows + elements(first) * p_.b.column, acc);
    }
    for (int64_t first = 0; computed == nullptr && first < whole; first += p_.block_steps) {
      for (int64_t c = 0; c < block.columns; c += p_.shape.rows)
        multiply_panels(block, c, first, b_at(block.batch, block.column + c, elements(first)), acc);
    }
    for (int64_t number = first_panel; number < end_panel; ++number)
      write_transposed(block, number, acc + (number - first_panel) * acc_of_panel);
    if (p_.last_rows() > 0 && block.row + block.rows == p_.tile_rows)
      run_matvec({block.batch, p_.tile_rows, p_.last_rows(), block.column, block.columns}, computed);
  }

  // Multiplies the panels of a block with a part of a tile's rows of B, from column c of the block on.
  void multiply_panels(const Block& block, int64_t c, int64_t first, const char* rows, float* acc) const {
    alignas(64) char staged[kStagedBytes];
    const int64_t steps = std::min(p_.block_steps, p_.steps - first);
    const int64_t count = std::min<int64_t>(p_.shape.rows, block.columns - c);
    int64_t row_stride = p_.b.row;
    if (p_.stage_b || count < p_.shape.rows) {
      stage(rows, p_.b, code_.widen_b, p_.b.row, count, first, steps, staged);
      rows = staged;
      row_stride = p_.staged_row_bytes(steps);
    }
    const char* next = next_rows(block, c, first);
    const int64_t first_panel = block.row / p_.shape.columns(), panels = divide_up(block.rows, p_.shape.columns());
    for (int64_t part = 0; part < panels; ++part) {
      const int64_t number = first_panel + part, columns = panel_columns(number);
      if (first + steps == p_.steps) fetch_ends(rows_of_panel(block, number, c, count));
      const char* from = panel(block.batch, number) + first * columns * 4;
      float* to = acc + part * p_.block_columns * p_.shape.columns() + c * columns;
      const Ahead ahead = share_of_rows(next, steps, part, panels);
      (columns == p_.shape.columns() ? code_.wide : code_.narrow)(from, rows, row_stride, kCutBytes, steps, to,
                                                                  columns * 4, first > 0 || starts_sums(), ahead.from,
                                                                  ahead.stride, ahead.step);
    }
  }

  // The memory that a tile prefetches (TileFunction).
  struct Ahead {
    const char* from;
    int64_t stride, step;
  };

  // The rows of B that come after the tile at column `c` of the block: those of the next tile, the next part of the
  // sums, or the next item.
  const char* next_rows(const Block& block, int64_t c, int64_t first) const {
    if (c + p_.shape.rows < block.columns) return b_at(block.batch, block.column + c + p_.shape.rows, elements(first));
    if (first + p_.block_steps < p_.steps) return b_at(block.batch, block.column, elements(first + p_.block_steps));
    return b_at(block.batch, block.column + block.columns, 0);
  }

  // The share of the next rows that the tile of a panel prefetches: on AMX some of the rows, otherwise a part of each
  // row.
  Ahead share_of_rows(const char* next, int64_t steps, int64_t part, int64_t panels) const {
    const auto bytes = [&](int64_t count) { return elements(count) * size_of(p_.b.dtype); };
    if (!p_.shape.amx) return {next + part * bytes(steps) / panels, p_.b.row, divide_up(bytes(kCutSteps), panels)};
    const int64_t row = part * p_.shape.fetched_rows;
    if (row >= p_.shape.rows) return {next, 0, 0};
    return {next + row * p_.b.row, p_.b.row, kLineBytes};
  }

  bool starts_sums() const { return p_.has_starts() && !p_.shape.amx; }
  void start_sums(int64_t batch, int64_t number, float* acc) const {
    const int64_t columns = panel_columns(number), row = number * p_.shape.columns();
    std::fill_n(acc, p_.block_columns * columns, 0.0F);
    for (int64_t c = 0; c < p_.block_columns; ++c)
      std::memcpy(acc + c * columns, starts_ + batch * p_.m + row, std::min(columns, p_.m - row) * 4);
  }

  void write_transposed(const Block& block, int64_t number, const float* acc) {
    alignas(64) float rows[kMostPanelColumns * kMostTileColumns + 16];
    const int64_t columns = panel_columns(number);
    code_.transpose(acc, columns * 4, p_.block_columns, columns, rows, p_.block_columns * 4);
    write(rows_of_panel(block, number, 0, block.columns), rows, p_.block_columns);
  }

  // The rows of a block that a panel of A makes, in the columns from `column` of the block on.
  Block rows_of_panel(const Block& block, int64_t number, int64_t column, int64_t columns) const {
    const int64_t row = number * p_.shape.columns();
    return {block.batch, row, std::min(panel_columns(number), p_.tile_rows - row), block.column + column, columns};
  }

  // The rows of B that are packed next, of which a tile prefetches a part of a row in each 16 steps: those of the next
  // part of these panels, or of the next panels.
  Ahead ahead_of_panels(const Block& block, int64_t first, int64_t steps, int64_t tile) const {
    const bool last = first + steps >= p_.steps, moves = p_.rows_last || block.row + block.rows == p_.tile_rows;
    const int64_t part = p_.shape.fetched_rows * kLineBytes, row_bytes = p_.block_columns * size_of(p_.b.dtype);
    const int64_t parts = divide_up(row_bytes, part), column = block.column + (last ? block.columns : 0);
    const int64_t next = last ? 0 : first + steps, row = tile / parts * (steps / kCutSteps);
    if (column >= p_.n || (last && !moves) || row >= elements_from(next, p_.block_steps)) return {b_, 0, 0};
    return {b_at(block.batch, column, elements(next) + row) + tile % parts * part, kLineBytes, p_.b.column};
  }

  // Packs a few rows of all panels at a time, because the panels are adjacent in a row of B.
  void pack_b(const Block& block, int64_t first, int64_t steps, char* packed) const {
    constexpr int64_t kSteps = 32;
    const int64_t width = p_.shape.columns();
    for (int64_t s = 0; s < steps; s += kSteps) {
      char* to = packed + s * width * 4;
      for (int64_t c = 0; c < block.columns; c += width, to += steps * width * 4) {
        const int64_t columns = std::min(width, block.columns - c);
        pack_panel(block.batch, block.column + c, columns, first + s, std::min(kSteps, steps - s), to);
      }
    }
  }

  void pack_panel(int64_t batch, int64_t column, int64_t columns, int64_t first, int64_t steps, char* to) const {
    const bool dense = p_.b.row == size_of(p_.b.dtype);
    if (dense && columns == p_.shape.columns() && elements_from(first, steps) == elements(steps))
      return code_.interleave(b_at(batch, column, elements(first)), p_.b.column, steps, to);
    if (pairs())
      return pack_pairs(b_at(batch, column, 0), p_.b.column, p_.b.row, columns, p_.k, first, steps, p_.shape.columns(),
                        to);
    pack_steps(b_at(batch, column, first), p_.b.dtype, p_.b.column, p_.b.row, code_.widen_b, columns, steps,
               p_.shape.columns(), to);
  }

  // acc: [row of tiles][column of the block].
  void run_pack_b(const Block& block) {
    alignas(64) float acc[kMostRowsOfTiles * kMostPanelColumns + 16];
    alignas(64) char packed[kMostPanelSteps * kMostPanelColumns * 4];
    const int64_t tiles = divide_up(block.rows, p_.shape.rows), in_strip = kStripRows / p_.shape.rows;
    int64_t first = 0;
    do {
      const int64_t steps = std::min(p_.block_steps, p_.steps - first);
      pack_b(block, first, steps, packed);
      for (int64_t tile = 0; tile < tiles; tile += in_strip)
        run_strip(block, tile, std::min(tile + in_strip, tiles), first, steps, packed, acc);
      first += p_.block_steps;
    } while (first < p_.steps);
  }

  // Computes a part of the sums of some tiles of each panel. Writes the sums if it is the last part: those of few rows
  // at a time, because rows far apart have few places in the cache to which they are prefetched.
  void run_strip(const Block& block, int64_t begin, int64_t end, int64_t first, int64_t steps, const char* packed,
                 float* acc) {
    const int64_t rows = p_.shape.rows, columns = p_.shape.columns(), panels = divide_up(block.columns, columns);
    const bool last = first + steps == p_.steps;
    for (int64_t panel = 0; panel < panels; ++panel) {
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t number = begin * panels + panel * (end - begin) + tile - begin;
        if (last) fetch_ends(part_of_tile(block, tile, panel));
        multiply_rows(block, tile_row(block, tile * rows), first, steps, packed + panel * steps * columns * 4,
                      acc + tile * rows * p_.block_columns + panel * columns,
                      ahead_of_panels(block, first, steps, number));
      }
    }
    if (!last) return;
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t again = tile * rows - tile_row(block, tile * rows);
      const Block all{block.batch, block.row + tile * rows, std::min(rows, block.rows - tile * rows), block.column,
                      block.columns};
      write(all, acc + (tile * rows + again) * p_.block_columns, p_.block_columns);
    }
  }

  // The part of a block of kPackB that a tile of a panel makes.
  Block part_of_tile(const Block& block, int64_t tile, int64_t panel) const {
    const int64_t r = tile * p_.shape.rows, c = panel * p_.shape.columns();
    return {block.batch, block.row + r, std::min<int64_t>(p_.shape.rows, block.rows - r), block.column + c,
            std::min<int64_t>(p_.shape.columns(), block.columns - c)};
  }

  // A last tile that is not whole starts earlier and computes some rows again, if there are enough rows. Cut rows have
  // room for whole tiles.
  int64_t tile_row(const Block& block, int64_t r) const {
    if (p_.cuts_a) return r;
    return block.rows < p_.shape.rows ? 0 : std::min<int64_t>(r, block.rows - p_.shape.rows);
  }

  void multiply_rows(const Block& block, int64_t r, int64_t first, int64_t steps, const char* packed, float* acc,
                     const Ahead& ahead) {
    alignas(64) char staged[kStagedBytes];
    const char* rows = a_row(block.batch, block.row + r) + first / kCutSteps * cut_stride();
    int64_t row_stride = a_row_stride();
    if (block.rows < p_.shape.rows && !p_.cuts_a) {
      const MatrixPlace dense{row_stride, size_of(p_.multiplied()), {}, p_.multiplied()};
      stage(rows, dense, nullptr, row_stride, block.rows, first, steps, staged);
      rows = staged;
      row_stride = p_.staged_row_bytes(steps);
    }
    code_.wide(packed, rows, row_stride, cut_stride(), steps, acc, p_.block_columns * 4, first > 0, ahead.from,
               ahead.stride, ahead.step);
  }

  // Computes neighbouring items together: the sum of an element does not depend on which others are computed with it.
  void run_matvecs(int64_t first, int64_t last, RowsOfB* computed) {
    const int64_t most = kMostColumns / p_.block_columns;
    while (first < last) {
      const int64_t of_batch = p_.column_blocks() - first % p_.column_blocks();
      const int64_t count = std::min({most, last - first, of_batch});
      Block all = block(first);
      all.columns = std::min(count * p_.block_columns, p_.n - all.column);
      run_matvec(all, computed);
      first += count;
    }
  }

  void run_matvec(const Block& block, RowsOfB* computed) {
    alignas(64) float acc[kMostVectors * kMostColumns + 16];
    const bool by_rows = p_.form != Form::kColumnsMatvec;
    if (!by_rows) std::memset(acc, 0, sizeof(float) * p_.m * kMostColumns);
    const auto multiply = [&](const char* matrix, int64_t column, int64_t columns) {
      code_.matvec(matrix, by_rows ? p_.b.row : p_.b.column, columns, a_row(block.batch, block.row), a_row_stride(),
                   p_.k, acc + column, kMostColumns);
    };
    if (computed == nullptr) multiply(b_at(block.batch, block.column, 0), 0, block.columns);
    for (int64_t c = 0; computed != nullptr && c < block.columns; c += p_.computed_rows()) {
      const int64_t count = std::min<int64_t>(p_.computed_rows(), block.columns - c);
      multiply(computed->compute(block.column + c, count), c, count);
    }
    for (int64_t r = 0; p_.has_starts() && r < block.rows; ++r)
      add_start(starts_[block.batch * p_.m + block.row + r], block.columns, acc + r * kMostColumns);
    write(block, acc, kMostColumns);
  }

  static void add_start(int32_t start, int64_t count, float* sums) {
    for (int64_t i = 0; i < count; ++i)
      sums[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(sums[i]) + static_cast<uint32_t>(start));
  }

  void write(const Block& block, float* sums, int64_t stride) {
    if (code_.epilogue != nullptr) {
      code_.epilogue(sums, stride, block.rows, block.columns, block.batch * p_.m + block.row, block.column,
                     ends_.data(), call_.scalars + p_.first_scalar);
      return;
    }
    char* to = static_cast<char*>(ends_.back()) + p_.c.offset(block.batch, p_.batch_sizes) + block.row * p_.c.row +
               block.column * p_.c.column;
    code_.store(sums, stride, block.rows, block.columns, to, p_.c.row);
  }

  const MatmulPlan& p_;
  const MatmulCode& code_;
  const ng_call& call_;
  const int64_t elements_of_step_;
  const char* a_;
  const char* b_;
  int32_t* starts_;
  char* packed_;
  std::vector<void*> ends_;  // buffers behind B: those of the epilogue, or C
};

MatvecKind matvec_kind(const MatmulSpec& spec, const MatmulPlan& plan) {
  if (is_quads(plan.kind)) return plan.kind == TileKind::kI8Quads ? MatvecKind::kI8Dot : MatvecKind::kU8Dot;
  if (plan.kind == TileKind::kBf16Pairs) return MatvecKind::kBf16Dot;
  if (spec.b == DType::kF32) return MatvecKind::kF32;
  if (spec.b == DType::kI8) return MatvecKind::kI8;
  return spec.b == DType::kF16 ? MatvecKind::kF16 : MatvecKind::kBf16;
}

}  // namespace

MatmulCode find_code(const MatmulSpec& spec, const target::Target& target, const MatmulPlan& plan) {
  MatmulCode code;
  if (!spec.epilogue) code.store = store_sums_code(target, spec.c);
  if (plan.has_tiles()) {
    const int64_t beyond = plan.tile_rows % plan.shape.columns();
    const bool narrowed = plan.form == Form::kPackA && beyond != 0 && beyond <= plan.shape.lanes;
    if (narrowed) code.narrow = tile_code(target, plan.kind, narrow(plan.shape));
    if (!narrowed || plan.tile_rows > plan.shape.columns()) code.wide = tile_code(target, plan.kind, plan.shape);
    const bool by_columns = plan.a.row == size_of(plan.a.dtype) && plan.a.column != plan.a.row;
    if (plan.dense_a && by_columns && !sums_integers(plan.kind)) {
      code.interleave_a = interleave_code(target, plan.kind, plan.a.dtype);
      code.transpose = transpose_code(target);
    }
    if (!plan.cuts_a && plan.converts(plan.a.dtype)) code.widen_a = widen_code(target, plan.a.dtype, plan.multiplied());
    if (plan.converts(plan.b.dtype)) code.widen_b = widen_code(target, plan.b.dtype, plan.multiplied());
    if (plan.form == Form::kPackA && plan.shape.amx && plan.b.dtype == plan.multiplied())
      code.copy = copy_tile_rows_code(target, plan.shape);
    if (plan.form == Form::kPackA)
      code.transpose = transpose_code(target);
    else
      code.interleave = interleave_code(target, plan.kind, plan.b.dtype);
    code.amx = amx_code(target, plan.kind);
  }
  const int64_t vectors = plan.has_tiles() ? plan.last_rows() : std::max<int64_t>(plan.m, 1);
  if (vectors > 0) {
    const auto find = plan.form == Form::kColumnsMatvec ? columns_matvec_code : rows_matvec_code;
    code.matvec = find(target, matvec_kind(spec, plan), static_cast<int>(vectors));
  }
  return code;
}

void make_code_for_rows(const MatmulSpec& spec, const target::Target& target, const MatmulPlan& plan) {
  // Makes code for each number of rows that matrix-vector products take, then for narrow tiles and wide ones.
  const int64_t width = plan.shape.columns();
  const auto make = [&](int64_t m) {
    MatmulPlan other = plan;
    other.m = m;
    // All that code depends on. Candidates with equal code are neighbours.
    std::optional<std::tuple<Form, int64_t, int, Passing>> made;
    for (const MatmulPlan& candidate : candidates_of(other, target)) {
      const TileShape& shape = candidate.shape;
      const std::tuple pieces(candidate.form, candidate.tile_rows, shape.fetched_rows, shape.passing);
      if (made != pieces) find_code(spec, target, candidate);
      made = pieces;
    }
  };
  for (int64_t m = 1; m <= kMostVectors; ++m) make(m);
  // Enough panels for all ways to prefetch, both for panels that stay in the L1 cache and for those that pass
  // through it.
  for (const int64_t panels : {int64_t{1}, kFewPanels, 2 * kFewPanels}) {
    make(panels * width);
    make(panels * width - plan.shape.lanes);
  }
}

void run_matmul(const MatmulPlan& plan, const MatmulCode& code, const ng_call& call) {
  Run run(plan, code, call);
  run.prepare();
  Slots slots;
  for_ranges(*call.host, run.items(), run.multiplications_each(),
             [&](int64_t first, int64_t last) { run.run_items(first, last, slots); });
}

namespace {

// Runs the items of one product after those of the other.
void run_apart(std::vector<Run>& runs, int64_t multiplications_each, const ng_host& host) {
  int64_t items = 0;
  for (const Run& run : runs) items += run.items();
  Slots slots;
  for_ranges(host, items, multiplications_each, [&](int64_t first, int64_t last) {
    for (Run& run : runs) {
      if (first < run.items() && last > 0)
        run.run_items(std::max<int64_t>(first, 0), std::min(last, run.items()), slots);
      first -= run.items();
      last -= run.items();
    }
  });
}

// Runs an item of each product, then the next item of each. Of matrix-vector products, whose results are short, a
// thread runs all of its items of one product before those of the next.
void run_in_step(std::vector<Run>& runs, const ng_host& host) {
  const int64_t each = runs.front().multiplications_each() * std::ssize(runs);
  Slots slots;
  for_ranges(host, runs.front().items(), each, [&](int64_t first, int64_t last) {
    const int64_t step = runs.front().has_tiles() ? 1 : last - first;
    for (int64_t item = first; item < last; item += step) {
      for (Run& run : runs) run.run_items(item, item + step, slots);
    }
  });
}

}  // namespace

void run_matmuls(const MatmulPlans& plans, const std::vector<MatmulCode>& codes, const ng_call& call) {
  const size_t count = plans.plans.size();
  if (plans.plans.front().tuned && plan_notes_wanted()) note_plan(str(plans.plans.front().blocks()));
  if (count == 1 || !plans.as_one) {
    for (size_t i = 0; i < count; ++i) run_matmul(plans.plans[i], codes[i], call);
    return;
  }
  std::vector<Run> runs;
  runs.reserve(count);
  for (size_t i = 0; i < count; ++i) runs.emplace_back(plans.plans[i], codes[i], call);
  // The first product that has items prepares the workspace for all of them.
  const auto first_run = std::ranges::find_if(runs, [](const Run& run) { return run.items() > 0; });
  if (first_run == runs.end()) return;
  first_run->prepare();
  if (plans.order == Order::kInStep) return run_in_step(runs, *call.host);
  run_apart(runs, first_run->multiplications_each(), *call.host);
}

}  // namespace npugraph::codegen
