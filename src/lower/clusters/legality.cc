// SPDX-License-Identifier: Apache-2.0
#include "lower/clusters/legality.h"

#include <algorithm>

#include "lower/contains.h"

namespace npugraph::lower {

Legality::Legality(const ir::Graph& graph, const ir::AliasInfo& aliases, const ir::Uses& uses, const NodeKinds& kinds)
    : graph_(graph), aliases_(aliases), uses_(uses), kinds_(kinds) {
  for (const ir::NodeId id : graph.order()) {
    if (!graph.node(id).dead && graph.node(id).op->is(ir::Trait::kMutates)) writers_.push_back(id);
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

// Whether a node between the member and `at` writes memory that the member reads.
bool Legality::is_overwritten(ir::NodeId member, ir::NodeId at) const {
  for (const ir::NodeId writer : writers_) {
    if (uses_.position[writer] <= uses_.position[member] || uses_.position[writer] >= uses_.position[at]) continue;
    for (const ir::ValueId written : ir::written_operands(graph_.node(writer))) {
      for (const ir::ValueId read : ir::operands(graph_.node(member))) {
        if (aliases_.root(read) == aliases_.root(written)) return true;
      }
    }
  }
  return false;
}

// Whether the member may fail and a node between it and `at` would make a late failure visible.
bool Legality::fails_late(ir::NodeId member, const std::vector<ir::NodeId>& nodes, ir::NodeId at) const {
  if (!graph_.node(member).op->is(ir::Trait::kMayThrow)) return false;
  const auto& order = graph_.order();
  const auto sees = [&](ir::NodeId id) {
    const ir::Op& op = *graph_.node(id).op;
    return !graph_.node(id).dead && !contains(nodes, id) &&
           (op.is(ir::Trait::kMayThrow) || op.is(ir::Trait::kMutates) || op.is(ir::Trait::kSideEffect) ||
            op.is(ir::Trait::kRandom) || op.is(ir::Trait::kOpaque));
  };
  const auto from = std::find(order.begin(), order.end(), member);
  return std::any_of(from + 1, std::find(from, order.end(), at), sees);
}

const char* Legality::objection(const std::vector<ir::NodeId>& nodes, ir::NodeId at) const {
  if (!can_write(at, nodes)) return "what it writes is read elsewhere in the loop";
  const char* reason = nullptr;
  for (const ir::NodeId member : nodes) {
    if (graph_.node(member).section != graph_.node(at).section) reason = "an event of their streams stands between";
    if (is_read_early(member, nodes, at)) reason = "something else reads the result before";
    if (is_overwritten(member, at)) reason = "what is read is written in between";
    if (fails_late(member, nodes, at)) reason = "a failure would come too late";
    if (reason != nullptr) return reason;
  }
  return nullptr;
}

// Whether the node and `nodes`, which run before it, read the memory that the node writes only at the place that is
// written, and before it is.
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
  return reads_itself && std::all_of(nodes.begin(), nodes.end(), [&](ir::NodeId node) {
           const bool by_place = kinds_.is(node, TermKind::kElementwise) || kinds_.is(node, TermKind::kRows);
           const auto operands = ir::operands(graph_.node(node));
           const bool reads_safely = std::all_of(operands.begin(), operands.end(), [&](ir::ValueId read) {
             return by_place ? is_safe(read, false) : !aliases_.may_overlap(read, written);
           });
           const auto& results = graph_.node(node).results;
           return reads_safely && std::none_of(results.begin(), results.end(), [&](ir::ValueId result) {
                    return result != ir::kNone && aliases_.root(result) == aliases_.root(written);
                  });
         });
}

}  // namespace npugraph::lower
