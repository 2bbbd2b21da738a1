// SPDX-License-Identifier: Apache-2.0
// A copy of an input that operators write in place, and that is copied back to the input. Functionalisation makes it
// for an operator that writes its arguments.
//
//   %w = aten.clone(%k)                 my.update_(%k, %x)
//   my.update_(%w, %x)            ->    %o = aten.mul.Tensor(%k, 2)
//   %o = aten.mul.Tensor(%w, 2)
//   %c = aten.copy_(%k, %w)
//
// Each written argument has a copy of its own, so operators that write several need nothing else.
#pragma once

#include "passes/memory_trace.h"

namespace npugraph::passes {

struct WorkingCopy {
  ir::NodeId clone = ir::kNone;
  ir::ValueId original = ir::kNone;  // the value that it copies
  ir::ValueId result = ir::kNone;
};

// The clone that made `source` or the base of `source`, if `source` has the same place and type in the clone as
// `destination` has in the clone's original; else nullopt. The strides may differ if only operators of users take the
// clone, as that of a part of a tensor: they take any strides.
std::optional<WorkingCopy> find_working_copy(const MemoryTrace& trace, const ir::Graph& graph, ir::ValueId source,
                                             ir::ValueId destination);

// Null if the original may be written instead of its working copy, which node `copy` copies back; else the reason why
// not. `may_move`: whether writes may move ahead of nodes that may fail.
const char* find_obstacle(const MemoryTrace& trace, const ir::Graph& graph, const WorkingCopy& working, ir::NodeId copy,
                          bool may_move);

}  // namespace npugraph::passes
