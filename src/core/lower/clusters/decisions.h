// SPDX-License-Identifier: Apache-2.0
// How every node of a graph runs, decided once and before any value has a place in memory.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "lower/catalog.h"
#include "lower/clusters/cluster.h"
#include "lower/generated/generated_node.h"
#include "lower/kernel_choice.h"

namespace npugraph::lower {

// Why there is no generated code for a node after all: for the task of several nodes that is noted under it
// (TaskNote::node), or for the node by itself.
struct Refusal {
  std::string reason;
  bool is_alone = false;
};
using Refusals = std::map<ir::NodeId, Refusal>;
// Notes a refusal that is not known yet. Code of the node by itself may be refused after that of several nodes.
void refuse(Refusals& refusals, ir::NodeId node, const Refusal& refusal);
// A refusal with the text of an error, which may show the code too.
Refusal refusal(std::string_view error, bool is_alone);

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
  // A cluster of several nodes with a refused one is taken apart: the host's operators and kernels run its nodes, and
  // code of one node those that the host cannot run. A node that is refused by itself has no generated code. Without
  // `place_parts`, no concatenation has.
  Decisions(const ir::Graph& graph, const OperatorCatalog& catalog, bool generate, bool place_parts,
            const Refusals& refused);

  // Nothing is decided about views and dead nodes.
  const Decision& of(ir::NodeId node) const { return decisions_[node]; }
  // Requires that some node is part of a cluster.
  const Ramps& ramps() const { return clusters_->ramps(); }
  std::span<const Conflict> conflicts() const {
    return clusters_ ? clusters_->conflicts() : std::span<const Conflict>();
  }

 private:
  std::optional<Refusal> find_refusal(ir::NodeId node, const Refusals& refused, bool host_can_run) const;
  bool is_read_by_loops_alone(const ir::Graph& graph, const ir::AliasInfo& aliases, const ir::Uses& uses,
                              ir::NodeId node) const;

  std::optional<Clusters> clusters_;
  std::vector<Decision> decisions_;  // per node
};

}  // namespace npugraph::lower
