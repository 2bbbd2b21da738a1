// SPDX-License-Identifier: Apache-2.0
#include "lower/clusters/legality.h"

#include <algorithm>

#include "lower/arguments.h"
#include "lower/contains.h"

namespace npugraph::lower {

NodeKinds::NodeKinds(const ir::Graph& graph, const OperatorCatalog* host)
    : graph_(graph), kinds_(graph.num_nodes()), walks_(graph.num_nodes()) {
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (node.dead || (is_left_to_host(graph, node) && (host == nullptr || host->can_run(*node.op)))) continue;
    kinds_[id] = term_kind(graph, node);
    if (is(id, TermKind::kRows)) walks_[id] = walk_of(graph, node);
  }
}

bool NodeKinds::reads_by_place(ir::NodeId user, ir::ValueId value) const {
  const ir::Node& node = graph_.node(user);
  if (!kinds_[user] || reads_elsewhere(user)) return false;
  if (is(user, TermKind::kConcatenation)) return true;
  if (is(user, TermKind::kScatter) && (self_of(node) == value || is_index_operand(node, value))) return false;
  const auto space = space_of(graph_, node);
  const size_t rank = graph_.value(value).tensor().sizes.size();
  return rank == space->size() || (rank == 0 && space->size() == 1 && space->front().is_int(1));
}

Legality::Legality(const ir::Graph& graph, const ir::AliasInfo& aliases, const ir::Uses& uses, const NodeKinds& kinds)
    : graph_(graph), aliases_(aliases), uses_(uses), kinds_(kinds), writers_(graph.num_values()) {
  for (const ir::NodeId id : graph.order()) {
    if (graph.node(id).dead || !graph.node(id).op->is(ir::Trait::kMutates)) continue;
    for (const ir::ValueId written : ir::written_operands(graph.node(id)))
      writers_[aliases.root(written)].push_back(id);
  }
}

// Whether a node other than `nodes` and `at` reads a result of the member before `at`, or one of these reads it through
// a view or not place by place.
bool Legality::is_read_early(ir::NodeId member, const std::vector<ir::NodeId>& nodes, ir::NodeId at) const {
  for (const ir::ValueId result : graph_.node(member).results) {
    if (result == ir::kNone) continue;
    for (const ir::ValueId name : aliases_.members(aliases_.root(result))) {
      for (const ir::NodeId user : uses_.users[name]) {
        const bool is_view = !graph_.node(user).views.empty();
        const bool is_inside =
            name == result && (user == at || contains(nodes, user)) && kinds_.reads_by_place(user, result);
        if (!is_view && !is_inside && uses_.position[user] <= uses_.position[at]) return true;
      }
    }
  }
  return false;
}

// Whether a node other than `nodes` touches, between the member and `at`, the memory that the member writes.
bool Legality::is_written_late(ir::NodeId member, const std::vector<ir::NodeId>& nodes, ir::NodeId at) const {
  const ir::ValueId written = ir::written_operands(graph_.node(member)).front();
  for (const ir::ValueId name : aliases_.members(aliases_.root(written))) {
    for (const ir::NodeId user : uses_.users[name]) {
      const bool is_between =
          uses_.position[user] > uses_.position[member] && uses_.position[user] < uses_.position[at];
      if (is_between && graph_.node(user).views.empty() && !contains(nodes, user)) return true;
    }
  }
  return false;
}

// Whether a node between the member and `at`, other than `inside`, writes memory that the member reads.
bool Legality::is_overwritten(ir::NodeId member, ir::NodeId at, const std::vector<ir::NodeId>& inside) const {
  return std::ranges::any_of(ir::operands(graph_.node(member)), [&](ir::ValueId read) {
    return std::ranges::any_of(writers_[aliases_.root(read)], [&](ir::NodeId writer) {
      return uses_.position[writer] > uses_.position[member] && uses_.position[writer] < uses_.position[at] &&
             !contains(inside, writer);
    });
  });
}

// Whether the member may fail, or writes, and a node between it and `at` would show that it ran late.
bool Legality::fails_late(ir::NodeId member, const std::vector<ir::NodeId>& nodes, ir::NodeId at) const {
  const bool may_throw = graph_.node(member).op->is(ir::Trait::kMayThrow), writes = kinds_.is_writer(member);
  if (!may_throw && !writes) return false;
  const auto& order = graph_.order();
  const auto sees = [&](ir::NodeId id) {
    const ir::Op& op = *graph_.node(id).op;
    if (graph_.node(id).dead || contains(nodes, id)) return false;
    if (op.is(ir::Trait::kMayThrow) || op.is(ir::Trait::kSideEffect) || op.is(ir::Trait::kOpaque)) return true;
    return may_throw && (op.is(ir::Trait::kMutates) || op.is(ir::Trait::kRandom));
  };
  const auto from = std::find(order.begin(), order.end(), member);
  return std::any_of(from + 1, std::find(from, order.end(), at), sees);
}

const char* Legality::objection(const std::vector<ir::NodeId>& nodes, ir::NodeId at) const {
  std::vector<ir::NodeId> all = nodes;
  all.push_back(at);
  if (!std::ranges::all_of(all, [&](ir::NodeId id) { return can_write(id, all); }))
    return "what it writes is read elsewhere in the loop";
  const char* reason = nullptr;
  for (const ir::NodeId member : nodes) {
    const bool writes = kinds_.is_writer(member);
    if (graph_.node(member).section != graph_.node(at).section) reason = "an event of their streams stands between";
    if (!writes && is_read_early(member, nodes, at)) reason = "something else reads the result before";
    if (writes && is_written_late(member, nodes, at)) reason = "something else uses what it writes before";
    if (is_overwritten(member, at, nodes)) reason = "what is read is written in between";
    if (fails_late(member, nodes, at)) reason = "a failure would come too late";
    if (reason != nullptr) return reason;
  }
  return nullptr;
}

// Whether those of `nodes` that run before this one read the memory that it writes only at the place that is written,
// and those that run after it read that memory only as its result. None of the others may write that memory.
bool Legality::can_write(ir::NodeId id, const std::vector<ir::NodeId>& nodes) const {
  if (!kinds_.is_writer(id)) return true;
  const ir::ValueId written = ir::written_operands(graph_.node(id)).front();
  const bool is_scatter = kinds_.is(id, TermKind::kScatter);
  const bool by_rows =
      std::any_of(nodes.begin(), nodes.end(), [&](ir::NodeId node) { return kinds_.is(node, TermKind::kRows); });
  const auto is_safe = [&](ir::ValueId read, bool once) {
    if (!aliases_.may_overlap(read, written)) return true;
    return !is_scatter && (!by_rows || once) && aliases_.same_view(read, written);
  };
  const auto own = ir::operands(graph_.node(id));
  const bool reads_itself =
      std::all_of(own.begin() + 1, own.end(), [&](ir::ValueId read) { return is_safe(read, true); });
  const auto is_safe_before = [&](ir::NodeId node) {
    const bool by_place = !is_by_other_place(node);
    return std::ranges::all_of(ir::operands(graph_.node(node)), [&](ir::ValueId read) {
      return by_place ? is_safe(read, false) : !aliases_.may_overlap(read, written);
    });
  };
  const auto is_safe_behind = [&](ir::NodeId node) {
    const ir::ValueId result = graph_.node(id).results.front();
    return std::ranges::all_of(ir::operands(graph_.node(node)), [&](ir::ValueId read) {
      return !aliases_.may_overlap(read, written) || (read == result && kinds_.reads_by_place(node, read));
    });
  };
  return reads_itself && std::ranges::all_of(nodes, [&](ir::NodeId node) {
           if (node == id) return true;
           const auto& results = graph_.node(node).results;
           const bool has_other_results = std::ranges::none_of(results, [&](ir::ValueId result) {
             return result != ir::kNone && aliases_.root(result) == aliases_.root(written);
           });
           const bool is_before = uses_.position[node] < uses_.position[id];
           return has_other_results && (is_before ? is_safe_before(node) : is_safe_behind(node));
         });
}

// Whether the node may read elements from other places than the one that it computes.
bool Legality::is_by_other_place(ir::NodeId id) const {
  return !kinds_.is(id, TermKind::kElementwise) && !kinds_.is(id, TermKind::kRows) && !kinds_.is(id, TermKind::kWrite);
}

}  // namespace npugraph::lower
