// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/working_copy.h"

#include <algorithm>

#include "ops/operators.h"
#include "passes/in_place.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// Whether nothing depends on the strides of `result`: only operators of users take it, which take any strides and make
// nothing that could have the same ones, and copies read it.
bool fits_any_strides(const MemoryTrace& trace, const ir::Graph& graph, ir::ValueId result) {
  const auto accesses = trace.accesses(result);
  return trace.aliases().members(result).size() == 1 &&
         std::all_of(accesses.begin(), accesses.end(), [&](const MemoryTrace::Access& access) {
           const ir::Node& node = graph.node(access.node);
           const bool is_of_user = node.op->is(ir::Trait::kForeign) && node.results.empty();
           return is_of_user || aten::clone::is(node) || aten::copy_::is(node);
         });
}

// Whether the original may stand for its copy `result`, of which `source` is a view.
bool may_replace(const MemoryTrace& trace, const ir::Graph& graph, ir::ValueId original, ir::ValueId result,
                 ir::ValueId source) {
  const auto *from = std::get_if<ir::TensorType>(&graph.value(original).type),
             *to = std::get_if<ir::TensorType>(&graph.value(result).type);
  if (from == nullptr || to == nullptr) return false;
  return *from == *to || (source == result && have_same_elements(*from, *to) && fits_any_strides(trace, graph, result));
}

}  // namespace

std::optional<WorkingCopy> find_working_copy(const MemoryTrace& trace, const ir::Graph& graph, ir::ValueId source,
                                             ir::ValueId destination) {
  const ir::ValueId result = trace.root(source);
  const ir::NodeId clone = graph.value(result).def;
  if (clone == ir::kNone || !aten::clone::is(graph.node(clone))) return std::nullopt;
  const ir::ValueId original = aten::clone::self(graph.node(clone));
  if (original == ir::kNone || !may_replace(trace, graph, original, result, source)) return std::nullopt;
  const auto& aliases = trace.aliases();
  const auto &from = aliases.placement(source), &base = aliases.placement(original),
             &to = aliases.placement(destination);
  if (!from.placed || !base.placed || !to.placed || trace.root(original) != trace.root(destination))
    return std::nullopt;
  if (base.byte_offset + from.byte_offset != to.byte_offset) return std::nullopt;
  const ir::ValueId copied = source == result ? original : source;  // whose type it has in the original
  if (graph.value(copied).type != graph.value(destination).type) return std::nullopt;
  return WorkingCopy{clone, original, result};
}

namespace {

// Whether all elements that are written to the working copy are copied back.
bool is_all_copied(const MemoryTrace& trace, const WorkingCopy& working, ir::ValueId source) {
  const auto accesses = trace.accesses(working.result);
  return trace.is_whole(source) ||
         std::all_of(accesses.begin(), accesses.end(), [&](const MemoryTrace::Access& access) {
           return !access.write || trace.aliases().same_view(access.value, source);
         });
}

// The node that accesses the working copy at `position`; `copy` if there is none.
ir::NodeId node_at(const MemoryTrace& trace, const WorkingCopy& working, int32_t position, ir::NodeId copy) {
  const auto accesses = trace.accesses(working.result);
  const auto found = std::ranges::find(accesses, position, &MemoryTrace::Access::position);
  return found == accesses.end() ? copy : found->node;
}

}  // namespace

const char* find_obstacle(const MemoryTrace& trace, const ir::Graph& graph, const WorkingCopy& working, ir::NodeId copy,
                          bool may_move) {
  using Kind = MemoryTrace::Kind;
  const auto& [clone, original, result] = working;
  const int32_t copied = trace.position(copy);
  const int32_t written = std::min(trace.first_access(result, trace.position(clone), Kind::kWrite), copied);
  if (!is_all_copied(trace, working, aten::copy_::src(graph.node(copy)))) return "only a part is copied back";
  if (!trace.is_settled(result, copy)) return "copied on another stream, with no event between";
  const ir::NodeId writer = node_at(trace, working, written, copy);
  if (!trace.is_settled(original, writer)) return "the old value is used on another stream, with no event between";
  if (trace.is_accessed(original, trace.position(clone), written, Kind::kWrite)) return "the old value is overwritten";
  if (trace.is_accessed(original, written - 1, copied, Kind::kAny)) return "the old value is used after the write";
  if (trace.is_returned(result)) return "the new value is returned as well";
  if (trace.is_accessed(result, copied, MemoryTrace::kNever, Kind::kWrite)) return "the new value is overwritten later";
  const int32_t next_write = trace.first_access(original, copied, Kind::kWrite);
  // With several streams, a reader after the copy may run in parallel with that write.
  const int32_t overwritten = trace.has_streams() ? copied : next_write - 1;
  if (next_write != MemoryTrace::kNever && trace.is_accessed(result, overwritten, MemoryTrace::kNever, Kind::kAny)) {
    return "the new value is read after the next write";
  }
  const int32_t failing = fails_before_writing(*graph.node(writer).op) ? written + 1 : written;
  if (!may_move && trace.may_fail_between(failing, copied)) return "an operator before the write may fail";
  return nullptr;
}

}  // namespace npugraph::passes
