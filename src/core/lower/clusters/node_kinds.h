// SPDX-License-Identifier: Apache-2.0
// How the nodes of a graph touch their operands. Internal to lower/. A snapshot of a Graph, which must outlive it.
#pragma once

#include <optional>
#include <vector>

#include "lower/catalog.h"
#include "lower/terms/terms.h"

namespace npugraph::lower {

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

}  // namespace npugraph::lower
