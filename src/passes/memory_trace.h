// SPDX-License-Identifier: Apache-2.0
// Who touches which memory, and when: the question behind every rewrite that lets two values share memory.
//
// A snapshot of a Graph, like AliasInfo on which it stands: ids of nodes and values added later must not be asked for.
// A pass that makes two memories one while it walks the graph says so with unite(); from then on questions about either
// see the accesses of both. The graph must outlive the trace. Positions are indices in Graph::order(). Building is
// linear; a question costs the accesses in its window, of which it compares a bounded number and takes the rest to
// overlap.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/alias.h"
#include "ir/graph.h"
#include "ir/section_order.h"

namespace npugraph::passes {

class MemoryTrace {
 public:
  static constexpr int32_t kEnd = INT32_MAX - 1;  // position of the caller, who reads what the graph returns
  static constexpr int32_t kNever = INT32_MAX;
  static constexpr int32_t kStart = -1;

  enum class Kind : uint8_t { kAny, kWrite };

  // One use of an operand's elements. Views only name memory and are no access.
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
  // Whether the memory was made by a node of this graph that hands it over: neither input nor constant, and not the
  // result of an opaque callable, which may keep it.
  bool is_fresh(ir::ValueId id) const { return fresh_[root(id)]; }
  // Whether the graph returns the memory of `id` or a part of it.
  bool is_returned(ir::ValueId id) const;
  // Whether `id` certainly names every element of its memory, after unite().
  bool is_whole(ir::ValueId id) const;
  // Whether all nodes before the node `before` that make or touch the memory of `id` are done when it runs, which in graphs of
  // several streams is for sections to say.
  bool is_settled(ir::ValueId id, ir::NodeId before) const;
  // The same of two nodes in program order.
  bool is_done(ir::NodeId earlier, ir::NodeId later) const;
  bool has_streams() const { return order_.has_value(); }

  // All accesses to the memory of `id`, in program order.
  std::span<const Access> accesses(ir::ValueId id) const { return accesses_[root(id)]; }
  // Accesses that may overlap `id`: is there one strictly between two positions; the first after one; the last before
  // one (kNever and kStart when there is none).
  bool is_accessed(ir::ValueId id, int32_t after, int32_t before, Kind kind) const;
  int32_t first_access(ir::ValueId id, int32_t after, Kind kind) const;
  int32_t last_access(ir::ValueId id, int32_t before, Kind kind) const;
  bool is_written(ir::ValueId id) const { return is_accessed(id, kStart, kNever, Kind::kWrite); }

  // False only when the two certainly touch no common byte. Views of memories that were united are taken to overlap.
  bool may_overlap(ir::ValueId a, ir::ValueId b) const;

  // Whether a node in [from, to) may fail: raise for its inputs, or run code of the user.
  bool may_fail_between(int32_t from, int32_t to) const;

  // The memory of `from` becomes that which `into` names.
  void unite(ir::ValueId into, ir::ValueId from);

 private:
  void add_accesses(int32_t position, ir::NodeId id);

  const ir::Graph& graph_;
  ir::AliasInfo aliases_;
  std::vector<int32_t> position_;
  std::vector<int32_t> failing_;               // positions of the nodes that may fail
  std::vector<ir::ValueId> parent_;            // of roots, by unite()
  std::vector<bool> fresh_;                    // per root
  std::vector<bool> fills_parent_;             // per root: it is all of the memory that it was united with
  std::optional<ir::SectionOrder> order_;      // where there are streams
  std::vector<std::vector<Access>> accesses_;  // per root
};

// Whether `result`, the fresh result of a node at `position` that holds the same elements as `source`, may be
// `source`'s memory instead: no write to either is seen by a later read of the other, nothing is written into an input
// or constant that was not before, and what the graph returns stays fresh, whole memory.
bool can_share(const MemoryTrace& trace, ir::ValueId source, ir::ValueId result, int32_t position);

}  // namespace npugraph::passes
