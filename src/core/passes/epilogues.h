// SPDX-License-Identifier: Apache-2.0
// Epilogues: the copies that functionalisation puts at the end of a graph. Each stands for a write that the user's
// program made where the copied value was computed (PassContext::copy_epilogues).
#pragma once

#include <vector>

#include "passes/memory_trace.h"
#include "passes/pass.h"

namespace npugraph::passes {

// Returns the epilogues that are left, in program order, and clears them in `context`: the caller has to put them where
// they belong. An epilogue copies into an input that no other node writes, and follows the last node of another kind.
std::vector<ir::NodeId> take_epilogues(const ir::Graph& graph, PassContext& context);

// Checks for rewrites that compute values earlier while the epilogues are at the end. A snapshot, like the trace.
class EpilogueSources {
 public:
  // `trace` must outlive it.
  EpilogueSources(const ir::Graph& graph, const MemoryTrace& trace, const PassContext& context);

  // Whether a write of the user's program would move ahead of a node that may fail if `value`, made at `position`, were
  // made at `earlier` instead.
  bool would_move(ir::ValueId value, int32_t earlier, int32_t position) const;
  // The same if the earlier value `source` took the place of `value`. A clone of the input that is written has the old
  // elements, so that nothing is written where it is made.
  bool would_become(ir::ValueId value, ir::ValueId source) const;
  // Whether readers of `value`, made at `position` with the elements of `source`, may read `source` instead: the types
  // are equal, both may be the same memory, and no write moves.
  bool may_be_read_for(ir::ValueId source, ir::ValueId value, int32_t position) const;

 private:
  static constexpr ir::ValueId kSeveral = -2;

  void follow(const ir::Graph& graph, const ir::Node& node, ir::ValueId input);
  ir::ValueId input_of(ir::ValueId id) const { return input_of_[trace_.aliases().root(id)]; }
  bool has(ir::ValueId id) const { return input_of(id) != ir::kNone; }
  void add(ir::ValueId id, ir::ValueId input);

  const ir::Graph& graph_;
  const MemoryTrace& trace_;
  std::vector<ir::ValueId> input_of_;  // per alias root: the input whose memory it may become, or kSeveral
};

}  // namespace npugraph::passes
