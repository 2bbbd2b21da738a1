// SPDX-License-Identifier: Apache-2.0
// The terms that a loop nest computes and where they lie, planned before any statement is written. Internal to lower/.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "lower/nest/layout.h"
#include "lower/nest/loop_nest.h"

namespace npugraph::lower {

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
