// SPDX-License-Identifier: Apache-2.0
// What a loop nest computes and where that lies, before any statement is written. Internal to lower/.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "lower/nest/layout.h"
#include "lower/nest/loop_nest.h"

namespace npugraph::lower {

// What it refers to must outlive it.
struct NestPlan {
  const ir::Graph& graph;
  const Terms& terms;
  const StridesOf& strides_of_memory;
  const Generators& generators;
  const NestShape shape;
  std::optional<Sums> sums;                     // how those of the product in front lie
  std::vector<ir::ValueId> writes;              // results
  std::vector<ir::ValueId> reads = {};          // of memory
  std::vector<ir::ValueId> made = {};           // what is computed where it would be read
  std::vector<bool> needed = {};                // per term: whether it is computed
  std::vector<int> kept = {};                   // full terms that later walks read from a local row
  int last_level = 0;                           // of terms that are computed
  Layout layout = {};                           // of all accesses
  std::vector<std::vector<Expr>> strides = {};  // per access: in the dimensions of the space
  std::vector<Expr> offsets = {};               // per access: elements before its place 0
  std::vector<size_t> slots = {};               // per term: of a load, its access
  std::vector<size_t> stores = {};              // per result: its access

  // Of a value; 0 where all elements of a generator are the same, which need no place.
  std::vector<Expr> strides_of(ir::ValueId value) const;
  bool is_epilogue() const { return sums.has_value(); }
  bool is_by_rows() const { return is_epilogue() || terms.walks_rows(); }
  // Whether the sums of a product in front, where there is one, lie as the nest walks over them.
  bool has_rows_of_sums() const;
  bool is_kept(int term) const;
  // Terms that combine what the walk of this level computes.
  std::vector<int> reductions_of(int level) const;
  // Whether the walk of this level computes anything.
  bool has_work(int level) const;
  // (write, read): a result may take the memory of what is read at the same places alone, before anything is stored there.
  std::vector<std::pair<size_t, size_t>> shares() const;
};

// A nest that stores `results`.
NestPlan plan_nest(const ir::Graph& graph, const Terms& terms, const std::vector<ir::ValueId>& results,
                   const StridesOf& strides_of, const Generators& generators, const NestShape& shape,
                   std::optional<Sums> sums);

}  // namespace npugraph::lower
