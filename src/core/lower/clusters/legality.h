// SPDX-License-Identifier: Apache-2.0
// Which nodes may run later than at their place: no node in between reads or writes their data, failures keep their
// order, and no event lies in between. Internal to lower/. The arguments of the constructor must outlive it.
#pragma once

#include <optional>
#include <vector>

#include "ir/alias.h"
#include "ir/graph.h"
#include "lower/catalog.h"
#include "lower/terms/terms.h"

namespace npugraph::lower {

// How the nodes of a graph touch their operands. A snapshot of a Graph, which must outlive it.
class NodeKinds {
 public:
  // A null host runs all operators.
  explicit NodeKinds(const ir::Graph& graph, const OperatorCatalog* host = nullptr);

  // Returns nullopt for nodes without terms.
  std::optional<TermKind> kind(ir::NodeId id) const { return kinds_[id]; }
  bool is(ir::NodeId id, TermKind kind) const { return kinds_[id] == kind; }
  // The dimensions that a node of kind kRows combines.
  const std::vector<int>& walk(ir::NodeId id) const { return walks_[id]; }
  bool is_writer(ir::NodeId id) const { return is(id, TermKind::kWrite) || is(id, TermKind::kScatter); }
  bool reads_elsewhere(ir::NodeId id) const { return is(id, TermKind::kGather) || is(id, TermKind::kWindow); }
  // Whether the user reads, at each place of its space, only the element of the value at that place (or of that row).
  // Only then may the value be computed where it is read.
  bool reads_by_place(ir::NodeId user, ir::ValueId value) const;

 private:
  const ir::Graph& graph_;
  std::vector<std::optional<TermKind>> kinds_;
  std::vector<std::vector<int>> walks_;
};

class Legality {
 public:
  Legality(const ir::Graph& graph, const ir::AliasInfo& aliases, const ir::Uses& uses, const NodeKinds& kinds);

  // Why the nodes may not all run at the place of `at`, in one loop with it; null if they may.
  const char* objection(const std::vector<ir::NodeId>& nodes, ir::NodeId at) const;
  bool is_legal(const std::vector<ir::NodeId>& nodes, ir::NodeId at) const { return objection(nodes, at) == nullptr; }
  bool is_overwritten(ir::NodeId member, ir::NodeId at, const std::vector<ir::NodeId>& inside = {}) const;
  bool can_write(ir::NodeId id, const std::vector<ir::NodeId>& nodes) const;

 private:
  bool is_read_early(ir::NodeId member, const std::vector<ir::NodeId>& nodes, ir::NodeId at) const;
  bool is_written_late(ir::NodeId member, const std::vector<ir::NodeId>& nodes, ir::NodeId at) const;
  bool fails_late(ir::NodeId member, const std::vector<ir::NodeId>& nodes, ir::NodeId at) const;
  bool is_by_other_place(ir::NodeId id) const;

  const ir::Graph& graph_;
  const ir::AliasInfo& aliases_;
  const ir::Uses& uses_;
  const NodeKinds& kinds_;
  std::vector<std::vector<ir::NodeId>> writers_;  // per root of the memory that they write, in order
};

}  // namespace npugraph::lower
