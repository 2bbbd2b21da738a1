// SPDX-License-Identifier: Apache-2.0
// Which values share memory. Views and in-place results share the storage of their base; every other value has memory
// of its own. Inputs and constants are assumed to be disjoint, which the runtime checks when it binds them.
// A snapshot of a Graph, which must outlive it: build again after changing the graph. Immutable, safe to share.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace npugraph::ir {

class AliasInfo {
 public:
  explicit AliasInfo(const Graph& graph);

  // The value whose memory `id` is in: an input, a constant or a fresh result. Follows views and in-place results.
  ValueId root(ValueId id) const { return root_[id]; }
  // All values in the memory of `root`, itself included, in order of definition.
  const std::vector<ValueId>& members(ValueId root) const { return members_[root]; }
  // Whether two values certainly name the same elements in the same shape: same root, and equal placement, sizes and
  // strides.
  bool same_view(ValueId a, ValueId b) const;
  // False only when the two certainly touch no common byte.
  bool may_overlap(ValueId a, ValueId b) const;
  // Bytes from the root's first element to this view's first element; exact when `placed`.
  struct Placement {
    bool placed = false;
    Expr byte_offset;
  };
  const Placement& placement(ValueId id) const { return placement_[id]; }

 private:
  void add_results(const Node& node);
  void place_view(ValueId result, ValueId base, const View* view);

  const Graph& graph_;
  std::vector<ValueId> root_;
  std::vector<std::vector<ValueId>> members_;
  std::vector<Placement> placement_;
};

// Whether the tensor certainly has no elements.
bool is_empty(const TensorType& type);

// Whether different indices certainly name different elements.
bool has_distinct_elements(const TensorType& type, const std::vector<Symbol>& symbols);

}  // namespace npugraph::ir
