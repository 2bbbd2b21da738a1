// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/reinplace_intermediates.h"

#include "ops/operators.h"
#include "passes/in_place.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// Whether node `id` is the last use of the memory that `form` would overwrite, and its result may be in that memory.
bool dies_here(const MemoryTrace& trace, const ir::Graph& graph, ir::NodeId id, const InPlaceForm& form) {
  if (!trace.is_fresh(form.target) || !trace.is_settled(form.target, id)) return false;
  if (trace.is_returned(graph.node(id).results[0]) && !trace.is_whole(form.target)) return false;
  const bool is_read_later =
      trace.is_accessed(form.target, trace.position(id), MemoryTrace::kNever, MemoryTrace::Kind::kAny);
  return !is_read_later && operands_permit(trace, graph, id, form);
}

// Whether the node is a functional copy over all of a tensor that a node made: its result is its source, so that
// remove_copies can remove it completely.
bool is_replacement(const ir::Graph& graph, const ir::Node& node) {
  if (!aten::copy::is(node)) return false;
  const ir::NodeId made = graph.value(aten::copy::self(node)).def;
  const ir::ValueId source = aten::copy::src(node);
  return graph.value(source).type == graph.value(node.results[0]).type && made != ir::kNone &&
         !is_free_view(graph.node(made));
}

}  // namespace

int reinplace_intermediates(ir::Graph& graph, PassContext& context) {
  MemoryTrace trace(graph);
  Replacements replacements(graph);
  int hits = 0;
  walk(graph, replacements, [&](ir::NodeId id) {
    auto form = in_place_form(graph, graph.node(id));
    if (context.fuses && graph.node(id).op->is(ir::Trait::kElementwise)) return;
    if (is_replacement(graph, graph.node(id))) return;
    if (!form || !form->same_strides || !dies_here(trace, graph, id, *form)) return;
    if (graph.node(id).op->is(ir::Trait::kCopyLike)) context.remark(graph.node(id), "updated in place");
    trace.unite(form->target, graph.node(id).results[0]);
    write_in_place(graph, id, std::move(*form), replacements);
    ++hits;
  });
  return hits;
}

}  // namespace npugraph::passes
