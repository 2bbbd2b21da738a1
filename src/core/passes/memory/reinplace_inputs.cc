// SPDX-License-Identifier: Apache-2.0
#include "passes/memory/reinplace_inputs.h"

#include <utility>

#include "base/error.h"
#include "ops/operators.h"
#include "passes/epilogues.h"
#include "passes/in_place.h"
#include "passes/memory/working_copy.h"
#include "passes/memory_trace.h"
#include "passes/rewrite.h"

namespace npugraph::passes {
namespace {

// Nested slices need one round for each level; deeper nests keep a copy.
constexpr int kMaxRounds = 16;

struct PendingCopy {
  ir::NodeId id = ir::kNone;
  bool is_epilogue = false;   // the user's program wrote where the value was computed
  const char* obstacle = "";  // why it was kept, in the last round
};

// A copy_ together with the node that could write its destination.
struct Sink {
  ir::NodeId copy = ir::kNone;
  ir::NodeId producer = ir::kNone;
  ir::ValueId destination = ir::kNone;
  ir::ValueId source = ir::kNone;  // what is copied: the producer's result or a view of it
  ir::ValueId result = ir::kNone;  // the producer's result
  bool is_epilogue = false;
};

// Whether the copy is the only use of the result, so that nothing depends on its strides.
bool is_only_copied(const MemoryTrace& trace, const Sink& sink) {
  return sink.source == sink.result && trace.aliases().members(sink.result).size() == 1 &&
         trace.accesses(sink.result).size() == 1;
}

// Whether `source` names the same elements as `destination` once the producer's result is in the memory of the target.
bool lands_on_destination(const MemoryTrace& trace, const ir::Graph& graph, const Sink& sink, const InPlaceForm& form) {
  const auto& aliases = trace.aliases();
  const ir::ValueId target = form.target;
  if (!form.same_strides) return is_only_copied(trace, sink) && aliases.same_view(target, sink.destination);
  const auto& from = aliases.placement(sink.source);
  const auto& to = aliases.placement(sink.destination);
  const auto& base = aliases.placement(target);
  if (!from.placed || !to.placed || !base.placed) return false;
  if (graph.value(sink.source).type != graph.value(sink.destination).type) return false;
  return trace.is_whole(sink.source) && base.byte_offset + from.byte_offset == to.byte_offset;
}

// Null if the producer may write the destination at its own place in the order, else the reason why not.
const char* find_obstacle(const MemoryTrace& trace, const ir::Graph& graph, const Sink& sink, const InPlaceForm& form) {
  using Kind = MemoryTrace::Kind;
  const int32_t computed = trace.position(sink.producer);
  const int32_t copied = trace.position(sink.copy);
  if (trace.root(form.target) != trace.root(sink.destination)) return "the new value is not computed from the old one";
  if (!lands_on_destination(trace, graph, sink, form)) return "the new value has other strides or other elements";
  if (!trace.is_done(sink.producer, sink.copy)) return "copied on another stream, with no event between";
  if (!trace.is_settled(form.target, sink.producer))
    return "the old value is used on another stream, with no event between";
  if (!operands_permit(trace, graph, sink.producer, form)) return "another operand overlaps what is written";
  if (trace.is_accessed(form.target, computed, copied, Kind::kAny)) return "the old value is used after the write";
  if (trace.is_returned(sink.result)) return "the new value is returned as well";
  if (trace.is_accessed(sink.result, copied, MemoryTrace::kNever, Kind::kWrite))
    return "the new value is overwritten later";
  const int32_t next_write = trace.first_access(sink.destination, copied, Kind::kWrite);
  if (next_write != MemoryTrace::kNever &&
      trace.is_accessed(sink.result, next_write - 1, MemoryTrace::kNever, Kind::kAny)) {
    return "the new value is read after the next write";
  }
  // Fresh memory is lost after an error anyway.
  const bool may_move = sink.is_epilogue || trace.is_fresh(sink.destination);
  const int32_t failing = fails_before_writing(*form.twin) ? computed + 1 : computed;
  if (!may_move && trace.may_fail_between(failing, copied)) return "an operator before the write may fail";
  return nullptr;
}

// One walk over the copies that are left, with one snapshot. Copies of memory that a rewrite of this round touched wait
// for the next round.
class Round {
 public:
  Round(ir::Graph& graph, PassContext& context)
      : graph_(graph), context_(context), trace_(graph), replacements_(graph), touched_(graph.num_values(), false) {}

  // Tries each copy. Removes resolved ones from the list, and adds those that scatters and functional copies turn into.
  int run(std::vector<PendingCopy>& copies) {
    int hits = 0;
    std::vector<PendingCopy> left;
    for (PendingCopy& copy : copies) {
      if (try_copy(copy, left)) {
        ++hits;
      } else {
        left.push_back(copy);
      }
    }
    replacements_.apply();
    copies = std::move(left);
    return hits;
  }

 private:
  bool try_copy(PendingCopy& copy, std::vector<PendingCopy>& added) {
    Sink sink{.copy = copy.id, .is_epilogue = copy.is_epilogue};
    sink.destination = aten::copy_::self(graph_.node(copy.id));
    sink.source = aten::copy_::src(graph_.node(copy.id));
    if (sink.source == ir::kNone || is_touched(sink.destination) || is_touched(sink.source)) return false;
    if (trace_.aliases().same_view(sink.destination, sink.source)) {
      drop_copy(sink);
      return true;
    }
    sink.result = trace_.root(sink.source);
    copy.obstacle = "the new value is an input or a constant";
    if (!trace_.is_fresh(sink.result)) return false;
    sink.producer = graph_.value(sink.result).def;
    if (const auto working = find_working_copy(trace_, graph_, sink.source, sink.destination)) {
      const bool may_move = sink.is_epilogue || trace_.is_fresh(sink.destination);
      copy.obstacle = find_obstacle(trace_, graph_, *working, sink.copy, may_move);
      if (copy.obstacle == nullptr) write_original(sink, *working);
      return copy.obstacle == nullptr;
    }
    auto form = in_place_form(graph_, graph_.node(sink.producer));
    copy.obstacle = "its operator has no in-place form for this type";
    if (!form) return false;
    copy.obstacle = find_obstacle(trace_, graph_, sink, *form);
    if (copy.obstacle != nullptr) return false;
    write(sink, std::move(*form), added);
    return true;
  }

  void write(const Sink& sink, InPlaceForm form, std::vector<PendingCopy>& added) {
    const bool is_copy = !form.is_scatter && aten::copy_::is(*form.twin);
    context_.remark(graph_.node(sink.producer), "updated in place");
    drop_copy(sink);
    touched_[sink.result] = true;
    const ir::NodeId scatter_copy = write_in_place(graph_, sink.producer, std::move(form), replacements_);
    if (scatter_copy != ir::kNone) added.push_back({scatter_copy, sink.is_epilogue});
    if (is_copy) added.push_back({sink.producer, false});
  }

  void write_original(const Sink& sink, const WorkingCopy& working) {
    context_.remark(graph_.node(working.clone), "updated in place");
    drop_copy(sink);
    touched_[working.result] = true;
    graph_.value(working.result).type = graph_.value(working.original).type;
    replacements_.replace(working.result, working.original);
    graph_.erase(working.clone);
  }

  void drop_copy(const Sink& sink) {
    touched_[trace_.root(sink.destination)] = true;
    for (const ir::ValueId result : graph_.node(sink.copy).results) {
      if (result != ir::kNone) replacements_.replace(result, sink.destination);
    }
    graph_.erase(sink.copy);
  }

  bool is_touched(ir::ValueId id) const {
    return static_cast<size_t>(id) >= touched_.size() || touched_[trace_.root(id)];
  }

  ir::Graph& graph_;
  PassContext& context_;
  MemoryTrace trace_;
  Replacements replacements_;
  std::vector<bool> touched_;  // per root
};

// Every copy_ of the graph, in order.
std::vector<PendingCopy> find_copies(const ir::Graph& graph, const std::vector<ir::NodeId>& epilogues) {
  std::vector<PendingCopy> copies;
  std::vector<bool> is_epilogue(graph.num_nodes(), false);
  for (const ir::NodeId id : epilogues) is_epilogue[id] = true;
  for (const ir::NodeId id : graph.order()) {
    if (aten::copy_::is(graph.node(id)) && !graph.node(id).dead) copies.push_back({id, is_epilogue[id]});
  }
  return copies;
}

}  // namespace

int reinplace_inputs(ir::Graph& graph, PassContext& context) {
  std::vector<PendingCopy> copies = find_copies(graph, take_epilogues(graph, context));
  int hits = 0;
  for (int round = 0; round < kMaxRounds && !copies.empty(); ++round) {
    const int found = Round(graph, context).run(copies);
    graph.compact();
    if (found == 0) break;
    hits += found;
  }
  for (const PendingCopy& copy : copies) {
    if (!copy.is_epilogue) continue;
    context.remark(graph.node(copy.id), cat("copied back: ", copy.obstacle));
    context.left_epilogues.push_back(copy.id);
  }
  return hits;
}

}  // namespace npugraph::passes
