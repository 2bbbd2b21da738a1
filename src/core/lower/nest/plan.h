// SPDX-License-Identifier: Apache-2.0
// The terms that a loop nest computes, where they lie and the dimensions that it walks over, planned before any
// statement is written. Internal to lower/.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "lower/nest/loop_nest.h"
#include "tensor/expr.h"

namespace npugraph::lower {

// The dimensions that the loops of a nest walk over. Internal to lower/.

// Outermost first.
struct Layout {
  std::vector<Expr> sizes;
  std::vector<std::vector<Expr>> strides;  // per access, in each of these dimensions
  std::vector<int> place;                  // per dimension of the space: its index here; kNone if it has size 1
  size_t row = 0;                          // index of the first dimension of the row
  size_t reused = 0;  // number of dimensions directly in front of the row over which large accesses are broadcast
};

struct LayoutRequest {
  const std::vector<Expr>& space;
  const std::vector<std::vector<Expr>>& strides;  // per access, in the dimensions of the space
  const std::vector<bool>& stay;                  // per dimension: whether it is kept as it is
  size_t row_rank = 0;      // number of last dimensions that form a row and stay apart; 0: all may be merged
  bool by_columns = false;  // there must be a dimension in front of the row
};

// The product of sizes [begin, end).
Expr product(const std::vector<Expr>& sizes, size_t begin, size_t end);
Expr ceil_div(const Expr& a, const Expr& b);

// Merges dimensions that all accesses walk through as if they were one, and drops those of size 1.
Layout collapse(const LayoutRequest& request);

// If an access too large for the cache is broadcast over dimensions in front of the row, moves these inside the others,
// so that the same elements are read again at once. Accesses of symbolic size are left as they are.
void put_reused_inside(Layout& layout);

// The objects that it refers to must outlive it.
struct NestPlan {
  const ir::Graph& graph;
  const Terms& terms;
  const StridesOf& strides_of_memory;
  const Ramps& ramps;
  const NestShape shape;
  std::optional<Sums> sums;                     // how the sums of the product in front lie
  std::vector<ir::ValueId> writes;              // results
  std::vector<ir::ValueId> reads = {};          // values that are read from memory
  std::vector<ir::ValueId> made = {};           // ramps, computed where they would be read
  std::vector<bool> needed = {};                // per term: whether it is computed
  std::vector<int> kept = {};                   // full terms that later walks read from a local row
  int last_level = 0;                           // highest level of the terms that are computed
  Layout layout = {};                           // of all accesses
  std::vector<std::vector<Expr>> strides = {};  // per access: in the dimensions of the space
  std::vector<Expr> offsets = {};               // per access: index of its element at place 0
  std::vector<size_t> slots = {};               // per term: the access of a load
  std::vector<size_t> stores = {};              // per result: the access of its store

  // The strides of a value; 0 for a ramp whose elements are all the same.
  std::vector<Expr> strides_of(ir::ValueId value) const;
  bool is_epilogue() const { return sums.has_value(); }
  bool is_by_rows() const { return is_epilogue() || terms.walks_rows(); }
  // Whether the layout walks over the sums of a product in front as they lie, see Sums.
  bool has_rows_of_sums() const;
  // The dimension of the layout along which tiles are read (Terms::tile()). nullopt if there is none besides the lanes:
  // the operands that it was for are not read.
  std::optional<size_t> tile() const;
  bool is_kept(int term) const;
  // The reductions over the walk of this level.
  std::vector<int> reductions_of(int level) const;
  // Whether the walk of this level computes anything.
  bool has_work(int level) const;
  // (write, read): the result may take the memory of a value, whose elements are read only at the places of the result,
  // before these are stored.
  std::vector<std::pair<size_t, size_t>> shares() const;
};

// Plans a nest that stores `results`.
NestPlan plan_nest(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
                   const StridesOf& strides_of, const Ramps& ramps, const NestShape& shape, std::optional<Sums> sums);

}  // namespace npugraph::lower
