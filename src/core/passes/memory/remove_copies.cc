// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/remove_copies.h"

#include "ops/operators.h"
#include "passes/epilogues.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// The operand that the node copies, if its result is a plain copy of one operand; else kNone.
ir::ValueId copied_operand(const ir::Node& node, bool has_epilogues) {
  if (ops::is_any<aten::clone, aten::_to_copy, aten::lift_fresh_copy>(node)) return ops::as_value(arg::self(node));
  // A functional copy marks the place of a write of the user's program until reinplace_inputs has put the write there.
  if (aten::copy::is(node) && !has_epilogues) return aten::copy::src(node);
  return ir::kNone;
}

bool is_self_copy(const MemoryTrace& trace, const ir::Node& node) {
  if (!aten::copy_::is(node)) return false;
  const ir::ValueId source = aten::copy_::src(node);
  return source != ir::kNone && trace.aliases().same_view(aten::copy_::self(node), source);
}

// Whether the copy keeps the old value of an input that an epilogue overwrites.
bool keeps_old_input(const MemoryTrace& trace, ir::ValueId source, int32_t position) {
  return !trace.is_fresh(source) && trace.is_accessed(source, position, MemoryTrace::kNever, MemoryTrace::Kind::kWrite);
}

// The node that makes `source` from sizes and numbers alone, if the copy at `position` may do the same in its place;
// else null. `source` is not written before.
const ir::Node* creation_to_repeat(const ir::Graph& graph, const MemoryTrace& trace, const ir::Node& copy,
                                   ir::ValueId source, int32_t position) {
  const ir::NodeId def = graph.value(source).def;
  if (def == ir::kNone || aten::copy::is(copy)) return nullptr;
  const ir::Node& creation = graph.node(def);
  if (!creation.op->is(ir::Trait::kCreation) || !is_pure(*creation.op) || !creation.defines.empty()) return nullptr;
  if (graph.value(copy.results[0]).type != graph.value(source).type) return nullptr;
  return trace.is_accessed(source, MemoryTrace::kStart, position, MemoryTrace::Kind::kWrite) ? nullptr : &creation;
}

}  // namespace

int remove_copies(ir::Graph& graph, PassContext& context) {
  MemoryTrace trace(graph);
  const EpilogueSources epilogue_sources(graph, trace, context);
  Replacements replacements(graph);
  int hits = 0;
  const auto drop = [&](ir::NodeId id, ir::ValueId by) {
    context.remark(graph.node(id), "copy removed");
    for (const ir::ValueId result : graph.node(id).results) {
      if (result != ir::kNone) replacements.replace(result, by);
    }
    graph.erase(id);
    ++hits;
  };
  const auto repeat = [&](ir::NodeId id, const ir::Node& creation) {
    context.remark(graph.node(id), "creation repeated instead of a copy of its result");
    graph.node(id).op = creation.op;
    graph.node(id).args = creation.args;
    ++hits;
  };
  walk(graph, replacements, [&](ir::NodeId id) {
    const ir::Node& node = graph.node(id);
    if (is_self_copy(trace, node)) return drop(id, aten::copy_::self(node));
    const ir::ValueId source = copied_operand(node, context.copy_epilogues);
    if (source == ir::kNone) return;
    const int32_t position = trace.position(id);
    if (context.copy_epilogues && keeps_old_input(trace, source, position)) return;
    if (!epilogue_sources.may_be_read_for(source, node.results[0], position)) {
      if (const ir::Node* creation = creation_to_repeat(graph, trace, node, source, position)) repeat(id, *creation);
      return;
    }
    trace.unite(source, node.results[0]);
    drop(id, source);
  });
  return hits;
}

}  // namespace npugraph::passes
