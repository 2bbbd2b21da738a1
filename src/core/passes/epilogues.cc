// SPDX-License-Identifier: Apache-2.0
#include "passes/epilogues.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "ops/operators.h"
#include "passes/in_place.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

std::vector<ir::NodeId> find_epilogues(const ir::Graph& graph, const ir::AliasInfo& aliases) {
  const auto is_input = [&](ir::ValueId id) { return graph.value(aliases.root(id)).def == ir::kNone; };
  std::vector<ir::NodeId> epilogues;
  std::unordered_set<ir::ValueId> written_before;  // roots
  bool at_end = true;
  for (auto id = graph.order().rbegin(); id != graph.order().rend(); ++id) {
    const ir::Node& node = graph.node(*id);
    if (node.dead || is_free_view(node)) continue;
    const auto written = ir::written_operands(node);
    at_end = at_end && aten::copy_::is(node) && is_input(written.front());
    if (at_end) epilogues.push_back(*id);
    if (at_end) continue;
    for (const ir::ValueId value : written) written_before.insert(aliases.root(value));
  }
  std::erase_if(epilogues, [&](ir::NodeId id) {
    return written_before.contains(aliases.root(aten::copy_::self(graph.node(id))));
  });
  std::reverse(epilogues.begin(), epilogues.end());
  return epilogues;
}

}  // namespace

std::vector<ir::NodeId> take_epilogues(const ir::Graph& graph, PassContext& context) {
  if (!std::exchange(context.copy_epilogues, false)) return std::exchange(context.left_epilogues, {});
  return find_epilogues(graph, ir::AliasInfo(graph));
}

EpilogueSources::EpilogueSources(const ir::Graph& graph, const MemoryTrace& trace, const PassContext& context)
    : graph_(graph), trace_(trace) {
  if (!context.copy_epilogues) return;
  const auto epilogues = find_epilogues(graph, trace.aliases());
  if (epilogues.empty()) return;
  input_of_.assign(graph.num_values(), ir::kNone);
  for (const ir::NodeId id : epilogues) {
    const ir::Node& copy = graph.node(id);
    add(aten::copy_::src(copy), trace.aliases().root(aten::copy_::self(copy)));
  }
  for (auto id = graph.order().rbegin(); id != graph.order().rend(); ++id) {
    const ir::Node& node = graph.node(*id);
    if (node.dead || is_free_view(node) || node.results.size() != 1 || node.results[0] == ir::kNone) continue;
    if (has(node.results[0])) follow(graph, node, input_of(node.results[0]));
  }
}

// Adds the operands whose memory the result of the node may take over.
void EpilogueSources::follow(const ir::Graph& graph, const ir::Node& node, ir::ValueId input) {
  if (const auto form = in_place_form(graph, node)) {
    add(form->target, input);
    if (form->is_scatter) add(form->source, input);
  } else if (node.op->is(ir::Trait::kCopyLike)) {
    for (const ir::ValueId operand : ir::operands(node)) add(operand, input);
  }
}

void EpilogueSources::add(ir::ValueId id, ir::ValueId input) {
  if (id == ir::kNone) return;
  ir::ValueId& known = input_of_[trace_.aliases().root(id)];
  known = known == ir::kNone || known == input ? input : kSeveral;
}

bool EpilogueSources::would_move(ir::ValueId value, int32_t earlier, int32_t position) const {
  return !input_of_.empty() && has(value) && trace_.may_fail_between(earlier + 1, position);
}

bool EpilogueSources::would_become(ir::ValueId value, ir::ValueId source) const {
  const ir::NodeId made = graph_.value(trace_.aliases().root(source)).def;
  if (made != ir::kNone && !input_of_.empty() && aten::clone::is(graph_.node(made))) {
    const ir::ValueId original = aten::clone::self(graph_.node(made));
    if (original != ir::kNone && trace_.aliases().root(original) == input_of(value)) return false;
  }
  return would_move(value, made == ir::kNone ? MemoryTrace::kStart : trace_.position(made),
                    trace_.position(graph_.value(value).def));
}

bool EpilogueSources::may_be_read_for(ir::ValueId source, ir::ValueId value, int32_t position) const {
  return graph_.value(source).type == graph_.value(value).type && !would_become(value, source) &&
         can_share(trace_, source, value, position);
}

}  // namespace npugraph::passes
