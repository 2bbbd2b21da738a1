// SPDX-License-Identifier: Apache-2.0
// The values of terms at the current element of a nest, and the memory that they come from and go to. Internal to lower/.
#pragma once

#include <unordered_map>
#include <vector>

#include "loop/builder.h"
#include "lower/nest/plan.h"

namespace npugraph::lower {

// Where the statements that are written stand.
struct NestPlace {
  std::vector<Expr> at;  // the current element, in each dimension of the layout
  Expr first, length;    // the piece of the last dimension that is walked over
  Expr in_tile;          // the current element of a tile
  Expr sums_row;         // of the product in front
  int walk = -1;         // level of the current walk; -1: outside of all

  // Goes to an element of the dimensions before `end`, which are numbered as one.
  void set_outer(const Layout& layout, const Expr& element, size_t end);
  // Goes to the first element of the row.
  void to_first(const Layout& layout);
};

class NestValues {
 public:
  // Declares the buffers and scalars of the kernel. What is given must outlive it.
  NestValues(const NestPlan& plan, loop::Builder& builder, NestPlace& place);

  // The kernel's scalars.
  const std::vector<Expr>& symbols() const { return symbols_; }

  // The value of a term, computed once where it is first asked for.
  loop::Value value_of(int term);
  void define(int term, loop::Value value) { values_.insert_or_assign(term, value); }
  void forget_all() { values_.clear(); }
  // Runs body(), which may stand in a loop: what it computes is not known behind it.
  template <typename Body>
  auto inside(Body body) {
    const std::unordered_map<int, loop::Value> outside = values_;
    auto result = body();
    values_ = outside;
    return result;
  }

  // Computes row terms all of whose reductions are done.
  void compute_row_terms(int level);
  // Stores the kept terms of a level in their local rows, at the current element.
  void keep_terms(int level);
  // Puts what has its neighbours in the rows of a tile into local memory: `rows` places of dimension `tile` from `first_row`.
  void stage_tile(size_t tile, const Expr& first_row, const Expr& rows);
  // Stores results that are values of rows, or those of a level. Everything is read before anything is stored: results may
  // lie in the memory of operands.
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
  loop::BufferId sums_{};                               // of the product in front
  std::unordered_map<ir::ValueId, loop::BufferId> in_;  // of what is read
  std::vector<loop::BufferId> out_;                     // per result
  std::unordered_map<int, loop::BufferId> rows_;        // of kept terms
  std::unordered_map<int, loop::BufferId> staged_;      // of loads that are read in tiles
  std::unordered_map<int, loop::Value> values_;         // of row terms, and of full ones in the current walk
};

}  // namespace npugraph::lower
