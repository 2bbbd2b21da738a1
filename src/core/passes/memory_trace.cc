// SPDX-License-Identifier: Apache-2.0
#include "passes/memory_trace.h"

#include <algorithm>
#include <iterator>

#include "passes/rewrite.h"
#include "tensor/shape.h"

namespace npugraph::passes {
namespace {

bool may_fail(const ir::Op& op) {
  return op.is(ir::Trait::kMayThrow) || op.is(ir::Trait::kOpaque) || op.is(ir::Trait::kSideEffect);
}

bool is_before(const MemoryTrace::Access& access, int32_t position) { return access.position < position; }

// Keeps questions fast about a buffer that is used in thousands of disjoint parts.
constexpr int kMaxComparisons = 256;

// Whether an access is of the kind asked for and may overlap a value.
class OverlapTest {
 public:
  OverlapTest(const MemoryTrace& trace, ir::ValueId id, MemoryTrace::Kind kind) : trace_(trace), id_(id), kind_(kind) {}

  bool operator()(const MemoryTrace::Access& access) {
    if (kind_ == MemoryTrace::Kind::kWrite && !access.write) return false;
    return ++comparisons_ > kMaxComparisons || trace_.may_overlap(access.value, id_);
  }

 private:
  const MemoryTrace& trace_;
  ir::ValueId id_;
  MemoryTrace::Kind kind_;
  int comparisons_ = 0;
};

}  // namespace

MemoryTrace::MemoryTrace(const ir::Graph& graph)
    : graph_(graph),
      aliases_(graph),
      position_(graph.num_nodes(), ir::kNone),
      parent_(graph.num_values()),
      fresh_(graph.num_values(), false),
      fills_parent_(graph.num_values(), false),
      accesses_(graph.num_values()) {
  if (graph.has_streams()) order_.emplace(graph.sections);
  for (ir::ValueId id = 0; id < graph.num_values(); ++id) {
    parent_[id] = id;
    const ir::NodeId def = graph.value(id).def;
    if (def == ir::kNone) continue;
    fresh_[id] = !graph.node(def).op->is(ir::Trait::kOpaque);
  }
  const auto& order = graph.order();
  for (size_t i = 0; i < order.size(); ++i) {
    if (!graph.node(order[i]).dead) add_accesses(static_cast<int32_t>(i), order[i]);
  }
  for (const ir::Output& output : graph.outputs) {
    const auto* ref = std::get_if<TensorRef>(&output);
    if (ref) accesses_[aliases_.root(ref->id)].push_back({kEnd, ir::kNone, ref->id, false});
  }
}

void MemoryTrace::add_accesses(int32_t position, ir::NodeId id) {
  const ir::Node& node = graph_.node(id);
  position_[id] = position;
  if (may_fail(*node.op)) failing_.push_back(position);
  if (is_free_view(node)) return;
  const auto written = ir::written_operands(node);
  for (const ir::ValueId operand : ir::operands(node)) {
    const ir::ValueId root = aliases_.root(operand);
    const bool write = std::find(written.begin(), written.end(), operand) != written.end();
    accesses_[root].push_back({position, id, operand, write});
  }
}

ir::ValueId MemoryTrace::root(ir::ValueId id) const {
  ir::ValueId root = aliases_.root(id);
  while (parent_[root] != root) root = parent_[root];
  return root;
}

bool MemoryTrace::is_returned(ir::ValueId id) const {
  const auto all = accesses(id);
  return !all.empty() && all.back().position == kEnd;
}

bool MemoryTrace::is_whole(ir::ValueId id) const {
  const ir::ValueId base = aliases_.root(id);
  const auto& place = aliases_.placement(id);
  if (!place.placed || !place.byte_offset.is_int(0)) return false;
  for (ir::ValueId root = base; parent_[root] != root; root = parent_[root]) {
    if (!fills_parent_[root]) return false;
  }
  const ir::TensorType& part = graph_.value(id).tensor();
  const ir::TensorType& whole = graph_.value(base).tensor();
  return part.dtype == whole.dtype && numel(part.sizes) == numel(whole.sizes);
}

bool MemoryTrace::is_done(ir::NodeId earlier, ir::NodeId later) const {
  return !order_ || order_->reaches(graph_.node(earlier).section, graph_.node(later).section);
}

bool MemoryTrace::is_settled(ir::ValueId id, ir::NodeId before) const {
  if (!order_) return true;
  const ir::NodeId def = graph_.value(root(id)).def;
  if (def != ir::kNone && !is_done(def, before)) return false;
  const auto all = accesses(id);
  return std::all_of(all.begin(), all.end(), [&](const Access& access) {
    return access.position >= position(before) || is_done(access.node, before);
  });
}

bool MemoryTrace::is_accessed(ir::ValueId id, int32_t after, int32_t before, Kind kind) const {
  return first_access(id, after, kind) < before;
}

int32_t MemoryTrace::first_access(ir::ValueId id, int32_t after, Kind kind) const {
  const auto all = accesses(id);
  const auto begin = after == kStart ? all.begin() : std::lower_bound(all.begin(), all.end(), after + 1, is_before);
  const auto found = std::find_if(begin, all.end(), OverlapTest(*this, id, kind));
  return found == all.end() ? kNever : found->position;
}

int32_t MemoryTrace::last_access(ir::ValueId id, int32_t before, Kind kind) const {
  const auto all = accesses(id);
  const auto end = std::lower_bound(all.begin(), all.end(), before, is_before);
  const auto found = std::find_if(std::reverse_iterator(end), all.rend(), OverlapTest(*this, id, kind));
  return found == all.rend() ? kStart : found->position;
}

bool MemoryTrace::may_overlap(ir::ValueId a, ir::ValueId b) const {
  if (a == b) return true;
  if (aliases_.root(a) == aliases_.root(b)) return aliases_.may_overlap(a, b);
  return root(a) == root(b);
}

bool MemoryTrace::may_fail_between(int32_t from, int32_t to) const {
  const auto next = std::lower_bound(failing_.begin(), failing_.end(), from);
  return next != failing_.end() && *next < to;
}

void MemoryTrace::unite(ir::ValueId into, ir::ValueId from) {
  const bool is_all = is_whole(into);
  into = root(into);
  from = root(from);
  if (into == from) return;
  fills_parent_[from] = is_all;
  parent_[from] = into;
  auto& all = accesses_[into];
  auto& added = accesses_[from];
  if (added.empty()) return;
  // Memories are united in program order, so only a short tail of the older one comes after the start of the newer one.
  const auto tail = std::lower_bound(all.begin(), all.end(), added.front().position, is_before) - all.begin();
  const auto middle = static_cast<ptrdiff_t>(all.size());
  all.insert(all.end(), added.begin(), added.end());
  std::inplace_merge(all.begin() + tail, all.begin() + middle, all.end(),
                     [](const Access& a, const Access& b) { return a.position < b.position; });
  added = {};
}

bool can_share(const MemoryTrace& trace, ir::ValueId source, ir::ValueId result, int32_t position) {
  using Kind = MemoryTrace::Kind;
  if (trace.is_returned(result) && (!trace.is_fresh(source) || trace.is_returned(source) || !trace.is_whole(source))) {
    return false;
  }
  const int32_t source_write = trace.first_access(source, position, Kind::kWrite);
  // A reader of one of the two may run in parallel with a writer of the other.
  if (trace.has_streams() && (source_write != MemoryTrace::kNever ||
                              trace.first_access(result, position, Kind::kWrite) != MemoryTrace::kNever))
    return false;
  if (source_write != MemoryTrace::kNever &&
      trace.is_accessed(result, source_write - 1, MemoryTrace::kNever, Kind::kAny)) {
    return false;
  }
  const int32_t result_write = trace.first_access(result, position, Kind::kWrite);
  if (result_write == MemoryTrace::kNever) return true;
  return trace.is_fresh(source) && !trace.is_accessed(source, result_write - 1, MemoryTrace::kNever, Kind::kAny);
}

}  // namespace npugraph::passes
