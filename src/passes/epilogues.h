// SPDX-License-Identifier: Apache-2.0
// The copies with which functionalisation ends a graph. Each stands for a write that the user's program made where the copied
// value was computed (PassContext::copy_epilogues).
#pragma once

#include <vector>

#include "passes/memory_trace.h"
#include "passes/pass.h"

namespace npugraph::passes {

// The epilogues that still stand, in program order, and the duty to put them where they belong: the copies into inputs behind
// the last node that does anything else, of inputs that no other node writes.
std::vector<ir::NodeId> take_epilogues(const ir::Graph& graph, PassContext& context);

// What a rewrite that computes values earlier must ask while the epilogues stand at the end. A snapshot, like the trace.
class EpilogueSources {
 public:
  // `trace` must outlive it.
  EpilogueSources(const ir::Graph& graph, const MemoryTrace& trace, const PassContext& context);

  // Whether a write of the user's program would come ahead of a node that may fail if `value`, made at `position`, were there
  // from `earlier` on.
  bool would_move(ir::ValueId value, int32_t earlier, int32_t position) const;
  // The same if `value` were the value `source` that is there already.
  bool would_become(ir::ValueId value, ir::ValueId source) const;
  // Whether who reads `value`, made at `position` with the elements of `source`, may read `source`: it has the same type, may be
  // the same memory, and no write moves.
  bool may_be_read_for(ir::ValueId source, ir::ValueId value, int32_t position) const;

 private:
  void follow(const ir::Graph& graph, const ir::Node& node);
  bool has(ir::ValueId id) const { return is_source_[trace_.aliases().root(id)]; }
  void add(ir::ValueId id);

  const ir::Graph& graph_;
  const MemoryTrace& trace_;
  std::vector<bool> is_source_;  // per alias root: it may become the memory of an input
};

}  // namespace npugraph::passes
