// SPDX-License-Identifier: Apache-2.0
// Which nodes run together in one generated loop nest, and which of these stand behind a matrix product or a convolution and
// work on its sums.
//
//   %a = aten.add.Tensor(%x, %r)                        one cluster, run where %n stands;
//   %n = aten.native_layer_norm(%a, [768], %w, %b, eps)    %a is stored only if something else reads it
//
// Three questions, asked apart: candidates (an operand of a node comes from a cluster of the same space, or is a part of what
// it puts side by side), legality (nobody reads or writes in between what would move, and nothing fails in another order), and
// score (bytes that are neither stored nor loaded; ties keep the original order).
//
// All of a cluster runs where its last node stands; what may fail is looked at before anything is stored. A node that writes
// an operand ends its cluster, so that writes stay where they are. A node that has terms and no precompiled kernel is a
// cluster by itself, unless it is small; so is one that reads a generator. A snapshot of a Graph. Immutable, safe to share.
#pragma once

#include <vector>

#include "ir/alias.h"
#include "ir/graph.h"
#include "lower/generators/generators.h"

namespace npugraph::lower {

struct Cluster {
  std::vector<ir::NodeId> nodes;  // in program order; none where a product runs by itself
  ir::NodeId product = ir::kNone;
  ir::ValueId product_view = ir::kNone;  // the result of the product as the nodes read it
  std::vector<Expr> space;
  int lanes = ir::kNone;  // the dimension of the space along which all values have simple strides; kNone: the last one
  int tile = ir::kNone;   // the dimension along which those values have them that do not along `lanes`; kNone: all do
  std::vector<int> walk;  // the dimensions that its reductions combine, ascending
  std::vector<ir::ValueId> results;  // what others read, in order of definition
  std::vector<ir::ValueId> writes;   // operands that the last node writes
  // Where the cluster runs.
  ir::NodeId anchor() const { return nodes.empty() ? product : nodes.back(); }
  Expr saved_bytes;  // that its nodes, each by itself, would store or load besides
};

// What could have run together with a node and does not.
struct Conflict {
  ir::NodeId producer = ir::kNone;  // the last node of the cluster that an operand comes from
  ir::NodeId consumer = ir::kNone;
  Expr bytes;  // that would not have been loaded
  const char* reason = "";
};

class Clusters {
 public:
  // Nodes that stand `apart` join none of the clusters before them. Without `place_parts` concatenations are part of none.
  Clusters(const ir::Graph& graph, const ir::AliasInfo& aliases, const std::vector<ir::NodeId>& apart = {},
           bool place_parts = true);

  // The cluster of a node; null when it runs by itself.
  const Cluster* find(ir::NodeId node) const;
  const std::vector<Cluster>& all() const { return clusters_; }
  // In program order of the consumers.
  const std::vector<Conflict>& conflicts() const { return conflicts_; }
  const Generators& generators() const { return generators_; }

 private:
  const Generators generators_;
  std::vector<Cluster> clusters_;
  std::vector<Conflict> conflicts_;
  std::vector<int> cluster_of_;  // per node
};

}  // namespace npugraph::lower
