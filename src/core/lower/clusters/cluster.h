// SPDX-License-Identifier: Apache-2.0
// Which nodes run together in one generated loop nest, and which of these are the epilogue of a matrix product
// or a convolution.
//
//   %a = aten.add.Tensor(%x, %r)                        one cluster, run where %n stands;
//   %n = aten.native_layer_norm(%a, [768], %w, %b, eps)    %a is stored only if something else reads it
//
// Three separate questions: candidates (an operand of a node comes from a cluster of the same space, or is a part of a
// concatenation), legality (no node in between reads or writes the data of a node that would move, and failures keep
// their order), and score (bytes that are neither stored nor loaded; ties keep the original order).
//
// All of a cluster runs at the place of its last node; checks that may fail run before anything is stored. Behind a
// node that writes an operand, only elementwise nodes join, and they read what it wrote from its result. A node that
// has terms but no precompiled kernel is a cluster by itself, unless it is small; so is one that reads a ramp, and one
// that the host cannot run. A snapshot of a Graph. Immutable, safe to share.
#pragma once

#include <vector>

#include "ir/alias.h"
#include "ir/graph.h"
#include "lower/catalog.h"
#include "lower/generated/ramps.h"

namespace npugraph::lower {

struct Cluster {
  std::vector<ir::NodeId> nodes;  // in program order; empty if a product runs by itself
  ir::NodeId product = ir::kNone;
  ir::ValueId product_view = ir::kNone;  // the result of the product as the nodes read it
  std::vector<Expr> space;
  int lanes = ir::kNone;  // the dimension of the space along which all values have simple strides; kNone: the last one
  // The dimension along which values that are not simple along `lanes` are contiguous; kNone: there are none.
  int tile = ir::kNone;
  std::vector<int> walk;             // the dimensions that its reductions combine, ascending
  std::vector<ir::ValueId> results;  // values that are read outside, in order of definition
  std::vector<ir::ValueId> writes;   // operands that its nodes write
  // The node at whose place the cluster runs.
  ir::NodeId anchor() const { return nodes.empty() ? product : nodes.back(); }
  Expr saved_bytes;  // bytes that its nodes would also store or load if each ran by itself
};

// A cluster that could have run together with a node but does not.
struct Conflict {
  ir::NodeId producer = ir::kNone;  // the last node of the cluster that an operand comes from
  ir::NodeId consumer = ir::kNone;
  Expr bytes;  // bytes that would not have been loaded
  const char* reason = "";
};

struct ClusterOptions {
  bool join = true;               // without it, nodes that nothing else runs, and products, are clusters of one node
  std::vector<ir::NodeId> apart;  // nodes that join no earlier cluster
  bool place_parts = true;        // without it, concatenations are part of no cluster
  // A single node that this host cannot run is a cluster, however small it is. Null: the host runs all operators.
  const OperatorCatalog* catalog = nullptr;
};

class Clusters {
 public:
  Clusters(const ir::Graph& graph, const ir::AliasInfo& aliases, const ClusterOptions& options = {});

  // The cluster of a node; null if the node is in none.
  const Cluster* find(ir::NodeId node) const;
  const std::vector<Cluster>& all() const { return clusters_; }
  // In program order of the consumers.
  const std::vector<Conflict>& conflicts() const { return conflicts_; }
  const Ramps& ramps() const { return ramps_; }

 private:
  const Ramps ramps_;
  std::vector<Cluster> clusters_;
  std::vector<Conflict> conflicts_;
  std::vector<int> cluster_of_;  // per node
};

}  // namespace npugraph::lower
