// SPDX-License-Identifier: Apache-2.0
#include "lower/cluster.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "lower/terms.h"
#include "tensor/shape.h"

namespace npugraph::lower {
namespace {

constexpr int kNoCluster = -1;

bool contains(const std::vector<ir::NodeId>& nodes, ir::NodeId node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

int64_t bytes_of(const ir::TensorType& type) {
  int64_t bytes = size_of(type.dtype);
  for (const Expr& size : type.sizes) bytes *= size.as_int().value_or(1);
  return bytes;
}

// Whether a row of the space runs through consecutive elements of the value, or through one.
bool has_simple_rows(const ir::TensorType& type) {
  if (type.sizes.empty() || type.sizes.back().is_int(1)) return true;
  return type.strides.back().is_int(1) || type.strides.back().is_int(0);
}

bool is_dense(const ir::TensorType& type) { return is_contiguous(type.sizes, type.strides); }

class Finder {
 public:
  Finder(const ir::Graph& graph, const ir::AliasInfo& aliases)
      : graph_(graph), aliases_(aliases), uses_(ir::find_uses(graph)), cluster_of_(graph.num_nodes(), kNoCluster) {
    for (const ir::NodeId id : graph.order()) {
      const ir::Node& node = graph.node(id);
      if (!node.dead && node.op->is(ir::Trait::kMutates)) writers_.push_back(id);
    }
  }

  void run() {
    for (const ir::NodeId id : graph_.order()) {
      if (graph_.node(id).dead) continue;
      if (auto space = space_of(graph_, graph_.node(id)); space && can_walk(id)) place(id, std::move(*space));
    }
    finish();
  }

  std::vector<Cluster> clusters;

  const std::vector<int>& cluster_of() const { return cluster_of_; }

 private:
  bool can_walk(ir::NodeId id) const;
  void place(ir::NodeId id, std::vector<Expr> space);
  std::vector<int> candidates(ir::NodeId id, const std::vector<Expr>& space) const;
  bool is_legal(const std::vector<ir::NodeId>& nodes, ir::NodeId at) const;
  bool is_read_early(ir::NodeId member, const std::vector<ir::NodeId>& nodes, ir::NodeId at) const;
  bool is_overwritten(ir::NodeId member, ir::NodeId at) const;
  void finish();
  void find_product(Cluster& cluster) const;
  bool can_absorb(ir::NodeId product, ir::ValueId view, const Cluster& cluster) const;
  void add_products(std::vector<Cluster>& kept);
  std::vector<ir::ValueId> results_of(const Cluster& cluster) const;
  bool leaves(ir::ValueId value, const Cluster& cluster) const;

  const ir::Graph& graph_;
  const ir::AliasInfo& aliases_;
  const ir::Uses uses_;
  std::vector<ir::NodeId> writers_;
  std::vector<int> cluster_of_;
};

bool Finder::can_walk(ir::NodeId id) const {
  const ir::Node& node = graph_.node(id);
  const auto fits = [&](ir::ValueId value) {
    return value == ir::kNone || (graph_.value(value).is_tensor() && has_simple_rows(graph_.value(value).tensor()));
  };
  const auto operands = ir::operands(node);
  return std::all_of(operands.begin(), operands.end(), fits) &&
         std::all_of(node.results.begin(), node.results.end(), fits);
}

// A node has the space of the cluster, or one value per row of it.
bool fits_space(const std::vector<Expr>& cluster, const std::vector<Expr>& node) {
  return cluster.size() == node.size() && std::equal(cluster.begin(), cluster.end() - 1, node.begin()) &&
         (node.back() == cluster.back() || node.back().is_int(1));
}

std::vector<int> Finder::candidates(ir::NodeId id, const std::vector<Expr>& space) const {
  std::vector<int> found;
  for (const ir::ValueId operand : ir::operands(graph_.node(id))) {
    const ir::NodeId def = graph_.value(operand).def;
    const int cluster = def == ir::kNone ? kNoCluster : cluster_of_[def];
    if (cluster == kNoCluster || std::find(found.begin(), found.end(), cluster) != found.end()) continue;
    if (fits_space(clusters[cluster].space, space)) found.push_back(cluster);
  }
  const auto saved = [&](int cluster) {
    int64_t bytes = 0;
    for (const ir::ValueId operand : ir::operands(graph_.node(id))) {
      const ir::NodeId def = graph_.value(operand).def;
      if (def != ir::kNone && cluster_of_[def] == cluster) bytes += bytes_of(graph_.value(operand).tensor());
    }
    return bytes;
  };
  std::stable_sort(found.begin(), found.end(), [&](int a, int b) { return saved(a) > saved(b); });
  return found;
}

// Whether somebody outside reads what the member computes before `at`, or `at` reads it otherwise than as it is.
bool Finder::is_read_early(ir::NodeId member, const std::vector<ir::NodeId>& nodes, ir::NodeId at) const {
  for (const ir::ValueId result : graph_.node(member).results) {
    if (result == ir::kNone) continue;
    for (const ir::ValueId name : aliases_.members(aliases_.root(result))) {
      for (const ir::NodeId user : uses_.users[name]) {
        const bool is_view = !graph_.node(user).views.empty();
        const bool is_inside = name == result && (user == at || contains(nodes, user));
        if (!is_view && !is_inside && uses_.position[user] <= uses_.position[at]) return true;
      }
    }
  }
  return false;
}

// Whether something that the member reads is written between it and `at`.
bool Finder::is_overwritten(ir::NodeId member, ir::NodeId at) const {
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

bool Finder::is_legal(const std::vector<ir::NodeId>& nodes, ir::NodeId at) const {
  return std::none_of(nodes.begin(), nodes.end(), [&](ir::NodeId member) {
    return is_read_early(member, nodes, at) || is_overwritten(member, at);
  });
}

void Finder::place(ir::NodeId id, std::vector<Expr> space) {
  int home = kNoCluster;
  for (const int candidate : candidates(id, space)) {
    if (home == kNoCluster) {
      if (is_legal(clusters[candidate].nodes, id)) home = candidate;
      continue;
    }
    if (clusters[candidate].space != clusters[home].space) continue;
    std::vector<ir::NodeId> both = clusters[home].nodes;
    both.insert(both.end(), clusters[candidate].nodes.begin(), clusters[candidate].nodes.end());
    if (!is_legal(both, id)) continue;
    for (const ir::NodeId member : clusters[candidate].nodes) cluster_of_[member] = home;
    clusters[home].nodes = std::move(both);
    clusters[candidate].nodes.clear();
  }
  if (home == kNoCluster) {
    home = static_cast<int>(clusters.size());
    clusters.push_back({.space = std::move(space)});
  }
  clusters[home].nodes.push_back(id);
  cluster_of_[id] = home;
}

bool Finder::leaves(ir::ValueId value, const Cluster& cluster) const {
  for (const ir::ValueId name : aliases_.members(aliases_.root(value))) {
    if (uses_.output_uses[name] > 0) return true;
    for (const ir::NodeId user : uses_.users[name]) {
      const bool is_view = !graph_.node(user).views.empty();
      if (!is_view && (name != value || !contains(cluster.nodes, user))) return true;
    }
  }
  return false;
}

std::vector<ir::ValueId> Finder::results_of(const Cluster& cluster) const {
  std::vector<ir::ValueId> results;
  for (const ir::NodeId member : cluster.nodes) {
    for (const ir::ValueId result : graph_.node(member).results) {
      if (result != ir::kNone && leaves(result, cluster)) results.push_back(result);
    }
  }
  return results;
}

// Whether the nodes are all that reads the product, and read it as `view`, element by element.
bool Finder::can_absorb(ir::NodeId product, ir::ValueId view, const Cluster& cluster) const {
  const ir::ValueId result = graph_.node(product).results.front();
  const auto& type = graph_.value(view).tensor();
  const auto& sums = graph_.value(result).tensor();
  const bool same_elements = is_dense(type) && is_dense(sums) && !type.sizes.empty() &&
                             type.sizes.back() == sums.sizes.back() && type.sizes == cluster.space;
  if (!same_elements || is_overwritten(product, cluster.anchor())) return false;
  for (const ir::ValueId name : aliases_.members(aliases_.root(result))) {
    if (uses_.output_uses[name] > 0) return false;
    for (const ir::NodeId user : uses_.users[name]) {
      if (!graph_.node(user).views.empty()) continue;
      if (name != view || !contains(cluster.nodes, user)) return false;
    }
  }
  return true;
}

// The last product whose sums the cluster can take over.
void Finder::find_product(Cluster& cluster) const {
  Terms terms(cluster.space);
  for (const ir::NodeId member : cluster.nodes) terms.add(graph_, graph_.node(member));
  if (terms.has_reductions()) return;
  for (const ir::NodeId member : cluster.nodes) {
    for (const ir::ValueId operand : ir::operands(graph_.node(member))) {
      const ir::NodeId def = graph_.value(aliases_.root(operand)).def;
      if (def == ir::kNone || !is_product(graph_, graph_.node(def)) || !can_absorb(def, operand, cluster)) continue;
      if (cluster.product != ir::kNone && uses_.position[def] <= uses_.position[cluster.product]) continue;
      cluster.product = def;
      cluster.product_view = operand;
    }
  }
}

void Finder::add_products(std::vector<Cluster>& kept) {
  for (const ir::NodeId id : graph_.order()) {
    const ir::Node& node = graph_.node(id);
    if (node.dead || node.results.empty() || cluster_of_[id] != kNoCluster || !is_product(graph_, node)) continue;
    const ir::ValueId result = node.results.front();
    cluster_of_[id] = static_cast<int>(kept.size());
    kept.push_back(
        {.product = id, .product_view = result, .space = graph_.value(result).tensor().sizes, .results = {result}});
  }
}

// Orders members, finds products in front and drops clusters that save nothing.
void Finder::finish() {
  std::vector<Cluster> kept;
  std::fill(cluster_of_.begin(), cluster_of_.end(), kNoCluster);
  for (Cluster& cluster : clusters) {
    if (cluster.nodes.empty()) continue;
    std::sort(cluster.nodes.begin(), cluster.nodes.end(),
              [&](ir::NodeId a, ir::NodeId b) { return uses_.position[a] < uses_.position[b]; });
    find_product(cluster);
    if (cluster.nodes.size() < 2 && cluster.product == ir::kNone) continue;
    if (cluster.product != ir::kNone) cluster_of_[cluster.product] = static_cast<int>(kept.size());
    cluster.results = results_of(cluster);
    for (const ir::NodeId member : cluster.nodes) {
      for (const ir::ValueId result : graph_.node(member).results) {
        if (result == ir::kNone) continue;
        const int64_t bytes = bytes_of(graph_.value(result).tensor());
        const auto readers = std::count_if(uses_.users[result].begin(), uses_.users[result].end(),
                                           [&](ir::NodeId user) { return contains(cluster.nodes, user); });
        const bool is_stored =
            std::find(cluster.results.begin(), cluster.results.end(), result) != cluster.results.end();
        cluster.saved_bytes += bytes * (readers + (is_stored ? 0 : 1));
      }
      cluster_of_[member] = static_cast<int>(kept.size());
    }
    kept.push_back(std::move(cluster));
  }
  add_products(kept);
  clusters = std::move(kept);
}

}  // namespace

Clusters::Clusters(const ir::Graph& graph, const ir::AliasInfo& aliases) {
  Finder finder(graph, aliases);
  finder.run();
  clusters_ = std::move(finder.clusters);
  cluster_of_ = finder.cluster_of();
}

const Cluster* Clusters::find(ir::NodeId node) const {
  const int cluster = cluster_of_[node];
  return cluster == kNoCluster ? nullptr : &clusters_[cluster];
}

}  // namespace npugraph::lower
