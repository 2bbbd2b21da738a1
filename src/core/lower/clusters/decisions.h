// SPDX-License-Identifier: Apache-2.0
// How every node of a graph runs, decided once and before any value has a place in memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "lower/catalog.h"
#include "lower/clusters/cluster.h"
#include "lower/generated/generated_node.h"
#include "lower/kernel_choice.h"

namespace npugraph::lower {

// How a node runs: the first member that is set decides; if none is set, the host's operator runs.
struct Decision {
  bool is_made_where_read = false;         // no task: loops compute its elements, see Ramps
  const Cluster* cluster = nullptr;        // generated code, together with others
  std::optional<GeneratedNode> generated;  // generated code, by itself
  std::optional<KernelChoice> kernel;      // a precompiled kernel
  const ir::Op* into_copy = nullptr;       // a copy of self, into which generated code of this operator writes
  std::optional<OutVariant> out_variant;   // the host's operator, writing into planned memory
  std::string reason;                      // why it is not generated code; empty where it is
};

// The call of the in-place twin that writes into the result of the node, which has to hold a copy of self already.
ir::Node written_form(const ir::Node& node, const ir::Op& twin);

// A snapshot of a Graph. Immutable.
class Decisions {
 public:
  // Code can be made for every node that is to be generated. Requires a catalog in the options.
  Decisions(const ir::Graph& graph, bool generate, const ClusterOptions& options);

  // Nothing is decided about views and dead nodes.
  const Decision& of(ir::NodeId node) const { return decisions_[node]; }
  // Requires that some node is part of a cluster.
  const Ramps& ramps() const { return clusters_->ramps(); }
  std::span<const Conflict> conflicts() const {
    return clusters_ ? clusters_->conflicts() : std::span<const Conflict>();
  }

 private:
  bool is_read_by_loops_alone(const ir::Graph& graph, const ir::AliasInfo& aliases, const ir::Uses& uses,
                              ir::NodeId node) const;

  std::optional<Clusters> clusters_;
  std::vector<Decision> decisions_;  // per node
};

}  // namespace npugraph::lower
