// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/recompute_parts.h"

#include <algorithm>
#include <utility>

#include "ops/node_facts.h"
#include "ops/operators.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// Whether `part` is the fresh result of a cheap operator and only the node at `position` accesses it.
bool is_recomputable(const MemoryTrace& trace, const ir::Graph& graph, ir::ValueId part, int32_t position) {
  const ir::NodeId def = graph.value(part).def;
  if (def == ir::kNone || !ops::is_exact(graph, graph.node(def)) || !is_pure(*graph.node(def).op)) return false;
  const auto accesses = trace.accesses(part);
  return std::all_of(accesses.begin(), accesses.end(), [&](const auto& access) { return access.position == position; });
}

ir::ValueId compute_again(ir::Graph& graph, ir::ValueId part) {
  const ir::NodeId def = graph.value(part).def;
  ir::Node again = graph.node(def);
  again.results.clear();
  const std::string name = graph.value(part).name + ".again";
  return graph.node(graph.insert_before(def, std::move(again), {graph.value(part).type}, name)).results[0];
}

}  // namespace

int recompute_parts(ir::Graph& graph, PassContext& context) {
  const MemoryTrace trace(graph);
  int hits = 0;
  const std::vector<ir::NodeId> order = graph.order();
  for (const ir::NodeId id : order) {
    if (graph.node(id).dead || !aten::cat::is(graph.node(id))) continue;
    auto parts = std::get<std::vector<TensorRef>>(aten::cat::tensors.attr(graph.node(id)));
    std::vector<ir::ValueId> seen;
    for (TensorRef& part : parts) {
      const auto at = std::lower_bound(seen.begin(), seen.end(), part.id);
      if (at == seen.end() || *at != part.id) {
        seen.insert(at, part.id);
      } else if (is_recomputable(trace, graph, part.id, trace.position(id))) {
        context.remark(graph.node(graph.value(part.id).def), "computed again for each place in a concatenation");
        part.id = compute_again(graph, part.id);
        ++hits;
      }
    }
    aten::cat::tensors.attr(graph.node(id)) = std::move(parts);
  }
  return hits;
}

}  // namespace npugraph::passes
