// SPDX-License-Identifier: Apache-2.0
// The values of a loop nest at its current element, and the loops over one row: a walk for each level of reductions.
// Internal to lower/.
#pragma once

#include <unordered_map>
#include <vector>

#include "loop/builder.h"
#include "lower/nest/plan.h"

namespace npugraph::lower {

// The values of terms at the current element of a nest, and their loads and stores. Internal to lower/.

// The place of the statements that are being written.
struct NestPlace {
  std::vector<Expr> at;  // the current element, in each dimension of the layout
  Expr first, length;    // the piece of the last dimension that is walked over
  Expr in_tile;          // the current row within a tile
  Expr sums_row;         // the current row of the sums of the product in front
  int walk = -1;         // level of the current walk; -1: outside of all

  // Goes to an element of the dimensions before `end`, numbered as if they were one dimension.
  void set_outer(const Layout& layout, const Expr& element, size_t end);
  // Goes to the first element of the row.
  void to_first(const Layout& layout);
};

class NestValues {
 public:
  // Declares the buffers and scalars of the kernel. The arguments must outlive it.
  NestValues(const NestPlan& plan, loop::Builder& builder, NestPlace& place);

  // The kernel's scalars.
  const std::vector<Expr>& symbols() const { return symbols_; }

  // The value of a term, computed when it is first asked for.
  loop::Value value_of(int term);
  void define(int term, loop::Value value) { values_.insert_or_assign(term, value); }
  void forget_all() { values_.clear(); }
  // Runs body(), which may write a loop: values that it computes are not known afterwards.
  template <typename Body>
  auto inside(Body body) {
    const std::unordered_map<int, loop::Value> outside = values_;
    auto result = body();
    values_ = outside;
    return result;
  }

  // Computes the row terms of a level, all of whose reductions are done.
  void compute_row_terms(int level);
  // Stores the kept terms of a level in their local rows, at the current element.
  void keep_terms(int level);
  // Copies values that are contiguous along dimension `tile` into local memory: `rows` places of it from `first_row`.
  void stage_tile(size_t tile, const Expr& first_row, const Expr& rows);
  // Stores the results that are row terms, or the full ones of a level. Everything is read before anything is stored,
  // because results may lie in the memory of operands.
  void store_results(bool rows, int level);
  void write_check(const TermCheck& check);

 private:
  void declare();
  void declare_symbols(const Expr& e);
  loop::Value compute(int term);
  loop::Value load(const Term& term, int id);
  loop::Value element(ir::ValueId value, const Expr& index);
  Expr index_of(const TermAccess& access, size_t slot);
  Expr place_in_row() const;

  const NestPlan& plan_;
  loop::Builder& builder_;
  NestPlace& place_;
  std::vector<Expr> symbols_;
  loop::BufferId sums_{};                               // sums of the product in front
  std::unordered_map<ir::ValueId, loop::BufferId> in_;  // per value that is read
  std::vector<loop::BufferId> out_;                     // per result
  std::unordered_map<int, loop::BufferId> rows_;        // local rows of kept terms
  std::unordered_map<int, loop::BufferId> staged_;      // local tiles of loads
  std::unordered_map<int, loop::Value> values_;         // of row terms, and of full ones in the current walk
};

class NestWalks {
 public:
  // The arguments must outlive it.
  NestWalks(const NestPlan& plan, loop::Builder& builder, NestPlace& place, NestValues& values)
      : plan_(plan), builder_(builder), place_(place), values_(values) {}

  // Writes all walks over the row of `place`, or over its piece of a row.
  void write_row();
  // Writes one walk: loops over the dimensions of the row from `dim` on. Returns the results of the reductions over
  // the outermost loop.
  std::vector<loop::Value> walk_over(size_t dim, int level, const std::vector<int>& reductions);
  // Combines `values` over the enclosing loop. Returns the results of the reductions.
  std::vector<loop::Value> combined(const std::vector<int>& reductions, std::vector<loop::Value> values);

 private:
  void write_walk(int level);
  int64_t piece_of(int level) const;
  bool is_whole_piece() const;
  std::vector<loop::Value> walk_inner(int level, const std::vector<int>& reductions);
  std::vector<loop::Value> walk_run(const Expr& first, const Expr& length, int level,
                                    const std::vector<int>& reductions);

  const NestPlan& plan_;
  loop::Builder& builder_;
  NestPlace& place_;
  NestValues& values_;
};

}  // namespace npugraph::lower
