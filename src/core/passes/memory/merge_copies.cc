// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/merge_copies.h"

#include <algorithm>
#include <optional>
#include <ranges>

#include "ops/operators.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// Whether the node is a view that selects the same elements for any strides of its base.
bool is_rearrangement(const ir::Node& node) {
  return is_free_view(node) && ops::is_any<aten::permute, aten::t, aten::transpose_int, aten::select_int, aten::expand,
                                           aten::unsqueeze, aten::slice_Tensor>(node);
}

class Merger {
 public:
  explicit Merger(ir::Graph& graph)
      : graph_(graph), trace_(graph), uses_(ir::find_uses(graph)), values_(graph.num_values()) {}

  int run(PassContext& context) {
    int hits = 0;
    for (const ir::NodeId id : std::vector<ir::NodeId>(graph_.order())) {
      if (graph_.node(id).dead || !makes_contiguous(graph_.node(id)) || !merge(id)) continue;
      context.remark(graph_.node(id), "reads what another copy copied");
      ++hits;
    }
    return hits;
  }

 private:
  bool is_read_once(ir::ValueId id) const { return uses_.users[id].size() == 1 && uses_.output_uses[id] == 0; }

  // The node that made `id`, if the trace knows it and `id` has one reader.
  const ir::Node* sole_maker(ir::ValueId id) const {
    const bool known = id != ir::kNone && static_cast<size_t>(id) < values_ && is_read_once(id);
    return known && graph_.value(id).def != ir::kNone ? &graph_.node(graph_.value(id).def) : nullptr;
  }

  bool merge(ir::NodeId copy) {
    std::vector<const ir::Node*> views;  // from the copy back to its source
    ir::ValueId at = aten::clone::self(graph_.node(copy));
    const ir::Node* maker = sole_maker(at);
    while (maker != nullptr && is_rearrangement(*maker)) {
      views.push_back(maker);
      at = ops::as_value(arg::self(*maker));
      maker = sole_maker(at);
    }
    if (views.empty() || !aten::clone::is(maker)) return false;
    const ir::ValueId source = aten::clone::self(*maker);
    const int32_t first = trace_.position(graph_.value(at).def), second = trace_.position(copy);
    if (static_cast<size_t>(source) >= values_) return false;
    if (trace_.is_accessed(source, first, second, MemoryTrace::Kind::kWrite) || trace_.is_written(at)) return false;
    return read_through(copy, views, source);
  }

  // Applies the same views to `source` and lets `copy` read the result. False if a view does not fit.
  bool read_through(ir::NodeId copy, const std::vector<const ir::Node*>& views, ir::ValueId source) {
    std::vector<ir::Node> calls;
    for (const ir::Node* view : views | std::views::reverse) calls.push_back(*view);
    for (ir::Node& call : calls) {
      arg::self(call) = TensorRef{source};
      source = insert_before(graph_, copy, *call.op, std::move(call.args), "rearranged");
      if (source == ir::kNone) return false;
    }
    aten::clone::self.attr(graph_.node(copy)) = TensorRef{source};
    return true;
  }

  ir::Graph& graph_;
  const MemoryTrace trace_;
  const ir::Uses uses_;
  const size_t values_;  // number of values that the trace knows
};

}  // namespace

int merge_copies(ir::Graph& graph, PassContext& context) { return Merger(graph).run(context); }

}  // namespace npugraph::passes
