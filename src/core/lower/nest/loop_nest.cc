// SPDX-License-Identifier: Apache-2.0
#include "lower/nest/loop_nest.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "loop/simplify.h"
#include "lower/nest/shape.h"
#include "lower/nest/walks.h"

namespace npugraph::lower {
namespace {

using loop::BufferId;
using loop::Builder;
using loop::Value;

// Another nest is taken only if its cost is below this part of the cost of the best one: costs are approximate.
constexpr double kLeastGain = 0.97;

// Writes the loops around the walks, in one of the forms of a nest.
class NestWriter {
 public:
  explicit NestWriter(NestPlan plan)
      : plan_(std::move(plan)),
        layout_(plan_.layout),
        terms_(plan_.terms),
        builder_(plan_.is_epilogue() ? "epilogue" : "nest"),
        values_(plan_, builder_, place_),
        walks_(plan_, builder_, place_, values_) {}

  LoopNest write() && {
    place_.at.assign(layout_.sizes.size(), Expr(0));
    place_.first = 0;
    place_.length = layout_.sizes.back();
    write_loops();
    LoopNest nest{.kernel = builder_.finish(),
                  .reads = plan_.reads,
                  .writes = plan_.writes,
                  .symbols = values_.symbols(),
                  .may_share = plan_.shares(),
                  .shape = plan_.shape,
                  .walked = std::move(walked_)};
    set_grain(nest, plan_.shape.grain);
    return nest;
  }

 private:
  template <typename Body>
  void parallel_for(const Expr& extent, const Expr& walked, const Body& body);
  void write_loops();
  void write_epilogue();
  void write_elements();
  void write_tiles(size_t tile);
  void write_rows();
  void write_columns();
  void write_split_rows();
  void write_split_columns();
  Expr split_pieces() const;
  std::vector<Value> walk_piece(const Expr& piece, int level, const std::vector<int>& reductions);
  void store_parts(std::vector<BufferId>& parts, const std::vector<int>& reductions, const std::vector<Value>& values,
                   const Expr& elements, const Expr& at);

  const NestPlan plan_;
  const Layout& layout_;
  const Terms& terms_;
  Builder builder_;
  NestPlace place_;
  NestValues values_;
  NestWalks walks_;
  std::vector<Expr> walked_;  // per parallel loop: elements of an iteration
  int64_t split_piece_ = 1;   // elements of a piece, if the row has one dimension
};

template <typename Body>
void NestWriter::parallel_for(const Expr& extent, const Expr& walked, const Body& body) {
  walked_.push_back(walked);
  builder_.parallel_for(extent, 1, body);
}

void NestWriter::write_loops() {
  if (plan_.is_epilogue()) return write_epilogue();
  for (const TermCheck& check : terms_.checks()) values_.write_check(check);
  if (!plan_.is_by_rows()) {
    const std::optional<size_t> tile = plan_.tile();
    return tile ? write_tiles(*tile) : write_elements();
  }
  if (terms_.is_by_columns()) return plan_.shape.splits ? write_split_columns() : write_columns();
  plan_.shape.splits ? write_split_rows() : write_rows();
}

void NestWriter::write_epilogue() {
  builder_.serial_for(product(layout_.sizes, 0, layout_.row), [&](const Expr& i) {
    place_.set_outer(layout_, i, layout_.row);
    place_.sums_row = i;
    walks_.write_row();
  });
}

// Elements do not depend on each other, so rows may be cut. The reused dimensions (Layout::reused) are inside the loop
// over pieces, so that each piece is read again at once.
void NestWriter::write_elements() {
  const Expr row = layout_.sizes.back();
  const Expr piece = plan_.shape.piece;
  const Expr pieces = ceil_div(row, piece);
  const bool is_whole = pieces.is_int(1);
  const Expr rows = product(layout_.sizes, 0, layout_.row);
  const Expr reused = product(layout_.sizes, layout_.row - layout_.reused, layout_.row);
  parallel_for(rows * pieces, is_whole ? row : piece, [&](const Expr& i) {
    const Expr p = Expr::make(ExprOp::kMod, {Expr::make(ExprOp::kFloorDiv, {i, reused}), pieces});
    place_.first = is_whole ? Expr(0) : p * piece;
    place_.length = is_whole ? row : Expr::make(ExprOp::kMin, {row - place_.first, piece});
    const Expr around = Expr::make(ExprOp::kFloorDiv, {i, reused * pieces});
    const Expr element = is_whole ? i : around * reused + Expr::make(ExprOp::kMod, {i, reused});
    place_.set_outer(layout_, element, layout_.row);
    walks_.write_row();
  });
}

// Writes tiles in which some loads are contiguous along dimension `tile`, and the stores along the lanes.
void NestWriter::write_tiles(size_t tile) {
  const size_t lane = layout_.sizes.size() - 1;
  const Expr side = plan_.shape.tile;
  Layout blocks{.sizes = layout_.sizes};
  for (const size_t d : {tile, lane}) blocks.sizes[d] = ceil_div(blocks.sizes[d], side);
  parallel_for(product(blocks.sizes, 0, blocks.sizes.size()), side * side, [&](const Expr& i) {
    place_.set_outer(blocks, i, blocks.sizes.size());
    const Expr first_row = place_.at[tile] * side;
    const Expr rows = Expr::make(ExprOp::kMin, {layout_.sizes[tile] - first_row, side});
    place_.first = place_.at[lane] * side;
    place_.length = Expr::make(ExprOp::kMin, {layout_.sizes[lane] - place_.first, side});
    values_.stage_tile(tile, first_row, rows);
    builder_.serial_for(rows, [&](const Expr& r) {
      place_.at[tile] = first_row + r;
      place_.in_tile = r;
      walks_.write_row();
    });
  });
}

void NestWriter::write_rows() {
  const Expr walked = product(layout_.sizes, layout_.row, layout_.sizes.size());
  parallel_for(product(layout_.sizes, 0, layout_.row), walked, [&](const Expr& i) {
    place_.set_outer(layout_, i, layout_.row);
    walks_.write_row();
  });
}

// Puts neighbouring rows in lanes, each of which walks over its elements.
void NestWriter::write_columns() {
  const size_t lane = layout_.row - 1;
  const Expr columns = layout_.sizes[lane];
  const Expr side = plan_.shape.columns;
  const Expr blocks = ceil_div(columns, side);
  const Expr walked = product(layout_.sizes, layout_.row, layout_.sizes.size()) * side;
  parallel_for(product(layout_.sizes, 0, lane) * blocks, walked, [&](const Expr& i) {
    place_.set_outer(layout_, Expr::make(ExprOp::kFloorDiv, {i, blocks}), lane);
    const Expr first = Expr::make(ExprOp::kMod, {i, blocks}) * side;
    builder_.vector_for(Expr::make(ExprOp::kMin, {columns - first, side}), [&](const Expr& j) {
      place_.at[lane] = first + j;
      walks_.write_row();
    });
  });
}

// The number of pieces of the first dimension of a split row. A thread takes one at a time.
Expr NestWriter::split_pieces() const {
  const bool is_one = layout_.row + 1 == layout_.sizes.size();
  return is_one ? ceil_div(layout_.sizes[layout_.row], split_piece_) : layout_.sizes[layout_.row];
}

// Walks over one of the pieces.
std::vector<Value> NestWriter::walk_piece(const Expr& piece, int level, const std::vector<int>& reductions) {
  size_t dim = layout_.row;
  if (layout_.row + 1 < layout_.sizes.size()) {
    place_.at[dim++] = piece;
  } else {
    place_.first = piece * split_piece_;
    place_.length = Expr::make(ExprOp::kMin, {layout_.sizes.back() - place_.first, Expr(split_piece_)});
  }
  place_.walk = level;
  return values_.inside([&] { return walks_.walk_over(dim, level, reductions); });
}

// Stores the results of the reductions of a piece in memory that all loops of the kernel share.
void NestWriter::store_parts(std::vector<BufferId>& parts, const std::vector<int>& reductions,
                             const std::vector<Value>& values, const Expr& elements, const Expr& at) {
  for (size_t r = 0; r < reductions.size(); ++r) {
    parts.push_back(builder_.shared(cat("part", reductions[r]), values[r].dtype(), elements));
    builder_.store(parts[r], at, values[r]);
  }
}

// One row: each walk is a parallel loop over its pieces.
void NestWriter::write_split_rows() {
  split_piece_ = kSumPiece;
  const Expr pieces = split_pieces();
  const Expr piece_length = ceil_div(terms_.row_length(), Expr::make(ExprOp::kMax, {pieces, Expr(1)}));
  for (int level = 0; level <= plan_.last_level; ++level) {
    values_.compute_row_terms(level);
    if (!plan_.has_work(level)) continue;
    const std::vector<int> reductions = plan_.reductions_of(level);
    std::vector<BufferId> parts;
    parallel_for(pieces, piece_length,
                 [&](const Expr& p) { store_parts(parts, reductions, walk_piece(p, level, reductions), pieces, p); });
    if (reductions.empty()) continue;
    const Expr p = builder_.begin_for(loop::For::Kind::kVector, pieces);
    std::vector<Value> values;
    for (const BufferId part : parts) values.push_back(builder_.load(part, p));
    values = walks_.combined(reductions, std::move(values));
    builder_.end_for();
    for (size_t r = 0; r < reductions.size(); ++r) values_.define(reductions[r], values[r]);
  }
  values_.store_results(true, plan_.last_level);
}

// A few columns: one loop reduces pieces of all of them, a second one combines the results of the pieces.
void NestWriter::write_split_columns() {
  const size_t lane = layout_.row - 1;
  const Expr columns = layout_.sizes[lane];
  split_piece_ = std::max<int64_t>(kColumnSumPiece, kColumnsPiece / std::max<int64_t>(columns.as_int().value_or(1), 1));
  const Expr pieces = split_pieces();
  NG_CHECK(plan_.last_level == 1, "columns of several walks are not split");
  const std::vector<int> reductions = plan_.reductions_of(0);
  std::vector<BufferId> parts;
  parallel_for(pieces, columns * split_piece_, [&](const Expr& p) {
    builder_.vector_for(columns, [&](const Expr& j) {
      place_.at[lane] = j;
      values_.forget_all();
      values_.compute_row_terms(0);
      store_parts(parts, reductions, walk_piece(p, 0, reductions), pieces * columns, p * columns + j);
    });
  });
  builder_.vector_for(columns, [&](const Expr& j) {
    place_.at[lane] = j;
    values_.forget_all();
    const Expr p = builder_.begin_for(loop::For::Kind::kSerial, pieces);
    std::vector<Value> values;
    for (const BufferId part : parts) values.push_back(builder_.load(part, p * columns + j));
    values = walks_.combined(reductions, std::move(values));
    builder_.end_for();
    for (size_t r = 0; r < reductions.size(); ++r) values_.define(reductions[r], values[r]);
    values_.compute_row_terms(0);
    values_.compute_row_terms(1);
    values_.store_results(true, 1);
  });
}

}  // namespace

LoopNest make_loop_nest(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
                        const StridesOf& strides_of, const Ramps& ramps, const NestShape& shape) {
  constexpr int64_t kMostLanes = 16;  // whole vectors of every target
  LoopNest nest = NestWriter(plan_nest(graph, terms, results, strides_of, ramps, shape, std::nullopt)).write();
  loop::simplify(nest.kernel);
  if (loop::split_loops(nest.kernel, kMostLanes)) loop::simplify(nest.kernel);
  return nest;
}

void set_grain(LoopNest& nest, int64_t elements) {
  nest.shape.grain = elements;
  size_t next = 0;
  for (loop::Stmt& statement : nest.kernel.body) {
    auto* loop = std::get_if<loop::For>(&statement.node);
    if (loop == nullptr || loop->kind != loop::For::Kind::kParallel) continue;
    loop->grain = ceil_div(elements, Expr::make(ExprOp::kMax, {nest.walked[next++], Expr(1)}));
  }
}

LoopNest make_cheapest_nest(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
                            const StridesOf& strides_of, const Ramps& ramps, const target::Target& target) {
  std::optional<LoopNest> best, nest;
  double least = 0;
  for (const NestShape& shape : nest_shapes(terms, results)) {
    if (nest) set_grain(*nest, shape.grain);
    if (!nest || nest->shape != shape) nest = make_loop_nest(graph, terms, results, strides_of, ramps, shape);
    const double cost = cost_of(nest->kernel, target);
    if (best && cost > least * kLeastGain) continue;
    least = cost;
    best = nest;
  }
  return *std::move(best);
}

std::optional<LoopNest> make_epilogue(const ir::Graph& graph, const Terms& terms,
                                      const std::vector<ir::ValueId>& results, const StridesOf& strides_of,
                                      const Ramps& ramps, Sums sums) {
  NestPlan plan = plan_nest(graph, terms, results, strides_of, ramps, {}, sums);
  if (!plan.has_rows_of_sums() || plan.last_level > 0) return std::nullopt;
  return NestWriter(std::move(plan)).write();
}

}  // namespace npugraph::lower
