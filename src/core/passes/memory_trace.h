// SPDX-License-Identifier: Apache-2.0
// All accesses to each memory of a graph, by position. Rewrites that let two values share memory ask here.
//
// A snapshot of a Graph, like the AliasInfo that it uses: ids of nodes and values added later must not be asked for.
// A pass that merges two memories while it walks the graph calls unite(); from then on questions about either see the
// accesses of both. The graph must outlive the trace. Positions are indices in Graph::order(). Building is linear. A
// question costs the accesses in its window: it compares a bounded number of them and assumes that the rest overlap.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/alias.h"
#include "ir/graph.h"

namespace npugraph::passes {

class MemoryTrace {
 public:
  static constexpr int32_t kEnd = INT32_MAX - 1;  // position of the caller, who reads what the graph returns
  static constexpr int32_t kNever = INT32_MAX;
  static constexpr int32_t kStart = -1;

  enum class Kind : uint8_t { kAny, kWrite };

  // One use of an operand's elements. A view is no access, since it reads no elements.
  struct Access {
    int32_t position = 0;
    ir::NodeId node = ir::kNone;
    ir::ValueId value = ir::kNone;
    bool write = false;
  };

  explicit MemoryTrace(const ir::Graph& graph);

  const ir::AliasInfo& aliases() const { return aliases_; }
  int32_t position(ir::NodeId id) const { return position_[id]; }
  // The value that stands for the memory of `id`, after unite().
  ir::ValueId root(ir::ValueId id) const;
  // Whether a node of this graph made the memory and keeps no reference: false for inputs, constants and results of
  // opaque callables, which may keep them.
  bool is_fresh(ir::ValueId id) const { return fresh_[root(id)]; }
  // Whether the graph returns the memory of `id` or a part of it.
  bool is_returned(ir::ValueId id) const;
  // Whether `id` certainly names every element of its memory, after unite().
  bool is_whole(ir::ValueId id) const;
  // Whether all nodes before the node `before` that make or access the memory of `id` are done when it runs. In graphs
  // of several streams, sections decide that.
  bool is_settled(ir::ValueId id, ir::NodeId before) const;
  // Whether `earlier` is done when `later` runs, for two nodes in program order.
  bool is_done(ir::NodeId earlier, ir::NodeId later) const;
  bool has_streams() const { return order_.has_value(); }

  // All accesses to the memory of `id`, in program order.
  std::span<const Access> accesses(ir::ValueId id) const { return accesses_[root(id)]; }
  // Accesses that may overlap `id`: whether there is one strictly between two positions; the position of the first
  // after a position (kNever if there is none); the position of the last before a position (kStart if there is none).
  bool is_accessed(ir::ValueId id, int32_t after, int32_t before, Kind kind) const;
  int32_t first_access(ir::ValueId id, int32_t after, Kind kind) const;
  int32_t last_access(ir::ValueId id, int32_t before, Kind kind) const;
  bool is_written(ir::ValueId id) const { return is_accessed(id, kStart, kNever, Kind::kWrite); }

  // False only when the two certainly touch no common byte. Views of memories that were united are assumed to overlap.
  bool may_overlap(ir::ValueId a, ir::ValueId b) const;

  // Whether a node in [from, to) may fail: it may raise for its inputs, or runs code of the user.
  bool may_fail_between(int32_t from, int32_t to) const;

  // Records that the memory of `from` is replaced by that of `into`.
  void unite(ir::ValueId into, ir::ValueId from);

 private:
  void add_accesses(int32_t position, ir::NodeId id);

  const ir::Graph& graph_;
  ir::AliasInfo aliases_;
  std::vector<int32_t> position_;
  std::vector<int32_t> failing_;               // positions of the nodes that may fail
  std::vector<ir::ValueId> parent_;            // of roots, by unite()
  std::vector<bool> fresh_;                    // per root
  std::vector<bool> fills_parent_;             // per root: whether it covers all memory of its parent
  std::optional<ir::SectionOrder> order_;      // only with several streams
  std::vector<std::vector<Access>> accesses_;  // per root
};

// Whether `result`, the fresh result of a node at `position` that holds the same elements as `source`, may be
// `source`'s memory instead: no write to either is seen by a later read of the other, nothing is written into an input
// or constant that was not before, and what the graph returns stays fresh, whole memory.
bool can_share(const MemoryTrace& trace, ir::ValueId source, ir::ValueId result, int32_t position);

}  // namespace npugraph::passes
