// SPDX-License-Identifier: Apache-2.0
#include "lower/cluster.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "lower/generated_node.h"
#include "lower/kernel_choice.h"
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

// Whether the elements of the value along dimension `row` of a space of this rank are consecutive, or are one.
bool is_simple(const ir::TensorType& type, size_t rank, size_t row) {
  const size_t missing = rank - std::min(rank, type.sizes.size());
  if (row < missing || type.sizes[row - missing].is_int(1)) return true;
  return type.strides[row - missing].is_int(1) || type.strides[row - missing].is_int(0);
}

bool is_dense(const ir::TensorType& type) { return is_contiguous(type.sizes, type.strides); }

// Whether the value has the images and channels of a convolution.
bool has_images_of(const ir::TensorType& type, const ir::TensorType& convolution) {
  return type.sizes.size() > 2 && std::equal(type.sizes.begin(), type.sizes.begin() + 2, convolution.sizes.begin());
}

class Finder {
 public:
  Finder(const ir::Graph& graph, const ir::AliasInfo& aliases)
      : graph_(graph),
        aliases_(aliases),
        uses_(ir::find_uses(graph)),
        kinds_(graph.num_nodes()),
        cluster_of_(graph.num_nodes(), kNoCluster) {
    for (const ir::NodeId id : graph.order()) {
      const ir::Node& node = graph.node(id);
      if (node.dead) continue;
      if (node.op->is(ir::Trait::kMutates)) writers_.push_back(id);
      kinds_[id] = term_kind(graph, node);
    }
  }

  void run() {
    for (const ir::NodeId id : graph_.order()) {
      if (graph_.node(id).dead) continue;
      auto space = space_of(graph_, graph_.node(id));
      const auto row = space ? find_row(id, *space) : std::nullopt;
      if (row && can_write(id, {})) place(id, std::move(*space), *row);
    }
    finish();
  }

  std::vector<Cluster> clusters;

  const std::vector<int>& cluster_of() const { return cluster_of_; }

 private:
  bool is_by_rows(ir::NodeId id) const { return kinds_[id] == TermKind::kRows; }
  bool is_writer(ir::NodeId id) const { return kinds_[id] == TermKind::kWrite || kinds_[id] == TermKind::kScatter; }
  bool can_walk(ir::NodeId id, size_t rank, size_t row) const;
  std::optional<int> find_row(ir::NodeId id, const std::vector<Expr>& space) const;
  void place(ir::NodeId id, std::vector<Expr> space, int row);
  void place_parts(ir::NodeId id, std::vector<Expr> space);
  bool merge(int home, int cluster, ir::NodeId id);
  bool are_alike(int a, int b) const {
    return clusters[a].space == clusters[b].space && clusters[a].row == clusters[b].row;
  }
  bool are_parts(int cluster, ir::NodeId id, ir::ValueId operand) const;
  std::vector<int> candidates(ir::NodeId id, const std::vector<Expr>& space) const;
  bool joins(ir::NodeId id, const std::vector<Expr>& space, int cluster) const;
  bool reads_by_place(ir::NodeId user, ir::ValueId value) const;
  bool is_legal(const std::vector<ir::NodeId>& nodes, ir::NodeId at) const;
  bool is_read_early(ir::NodeId member, const std::vector<ir::NodeId>& nodes, ir::NodeId at) const;
  bool is_overwritten(ir::NodeId member, ir::NodeId at) const;
  bool fails_late(ir::NodeId member, const std::vector<ir::NodeId>& nodes, ir::NodeId at) const;
  bool can_write(ir::NodeId id, const std::vector<ir::NodeId>& nodes) const;
  void finish();
  bool is_worth_code(const Cluster& cluster) const;
  void find_product(Cluster& cluster) const;
  bool lies_as_summed(const ir::Node& product, const ir::TensorType& type, const ir::TensorType& sums, int row) const;
  bool can_absorb(ir::NodeId product, ir::ValueId view, const Cluster& cluster) const;
  void add_products(std::vector<Cluster>& kept);
  std::vector<ir::ValueId> results_of(const Cluster& cluster) const;
  bool leaves(ir::ValueId value, const Cluster& cluster) const;

  const ir::Graph& graph_;
  const ir::AliasInfo& aliases_;
  const ir::Uses uses_;
  std::vector<ir::NodeId> writers_;
  std::vector<std::optional<TermKind>> kinds_;  // per node
  std::vector<int> cluster_of_;
};

bool Finder::can_walk(ir::NodeId id, size_t rank, size_t row) const {
  const ir::Node& node = graph_.node(id);
  const auto fits = [&](ir::ValueId value) {
    return value == ir::kNone ||
           (graph_.value(value).is_tensor() && is_simple(graph_.value(value).tensor(), rank, row));
  };
  const auto operands = ir::operands(node);
  return std::all_of(operands.begin(), operands.end(), fits) &&
         std::all_of(node.results.begin(), node.results.end(), fits);
}

// The dimension to walk along: the last one, or of elementwise nodes that in which the result is dense.
std::optional<int> Finder::find_row(ir::NodeId id, const std::vector<Expr>& space) const {
  const size_t last = space.size() - 1;
  if (can_walk(id, space.size(), last)) return static_cast<int>(last);
  if (kinds_[id] != TermKind::kElementwise) return std::nullopt;
  const ir::TensorType& type = graph_.value(graph_.node(id).results.front()).tensor();
  for (size_t d = 0; d < type.sizes.size(); ++d) {
    if (type.strides[d].is_int(1) && !type.sizes[d].is_int(1) && can_walk(id, space.size(), d))
      return static_cast<int>(d);
  }
  return std::nullopt;
}

// A node has the space of the cluster, or one value per row of it.
bool fits_space(const std::vector<Expr>& cluster, const std::vector<Expr>& node) {
  return cluster.size() == node.size() && std::equal(cluster.begin(), cluster.end() - 1, node.begin()) &&
         (node.back() == cluster.back() || node.back().is_int(1));
}

// Whether the node may be written over the cluster's space.
bool Finder::joins(ir::NodeId id, const std::vector<Expr>& space, int cluster) const {
  const Cluster& home = clusters[cluster];
  if (home.nodes.empty() || is_writer(home.nodes.back()) || !fits_space(home.space, space)) return false;
  const bool is_last = home.row + 1 == static_cast<int>(space.size());
  if (!is_last && (is_by_rows(id) || home.space != space)) return false;
  return can_walk(id, space.size(), static_cast<size_t>(home.row));
}

// Clusters that an operand comes from, those first that save most.
std::vector<int> Finder::candidates(ir::NodeId id, const std::vector<Expr>& space) const {
  std::vector<int> found;
  if (kinds_[id] == TermKind::kGather || kinds_[id] == TermKind::kConcatenation) return found;
  for (const ir::ValueId operand : ir::operands(graph_.node(id))) {
    const ir::NodeId def = graph_.value(operand).def;
    const int cluster = def == ir::kNone ? kNoCluster : cluster_of_[def];
    if (cluster == kNoCluster || std::find(found.begin(), found.end(), cluster) != found.end()) continue;
    if (joins(id, space, cluster)) found.push_back(cluster);
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

// Whether the user takes from the value, at each place of its space, the element of that place (or of that row): only then it
// may be computed where it is read.
bool Finder::reads_by_place(ir::NodeId user, ir::ValueId value) const {
  const ir::Node& node = graph_.node(user);
  if (!kinds_[user] || kinds_[user] == TermKind::kGather) return false;
  if (kinds_[user] == TermKind::kConcatenation) return true;
  const auto is_tensor = [&](size_t arg) {
    const auto* ref = std::get_if<TensorRef>(&node.args[arg]);
    return ref != nullptr && ref->id == value;
  };
  if (kinds_[user] == TermKind::kScatter && (is_tensor(0) || index_operand(node) == value)) return false;
  const auto space = space_of(graph_, node);
  const size_t rank = graph_.value(value).tensor().sizes.size();
  return rank == space->size() || (rank == 0 && space->size() == 1 && space->front().is_int(1));
}

// Whether somebody outside reads what the member computes before `at`, or `at` reads it otherwise than as it is.
bool Finder::is_read_early(ir::NodeId member, const std::vector<ir::NodeId>& nodes, ir::NodeId at) const {
  for (const ir::ValueId result : graph_.node(member).results) {
    if (result == ir::kNone) continue;
    for (const ir::ValueId name : aliases_.members(aliases_.root(result))) {
      for (const ir::NodeId user : uses_.users[name]) {
        const bool is_view = !graph_.node(user).views.empty();
        const bool is_inside = name == result && (user == at || contains(nodes, user)) && reads_by_place(user, result);
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

// Whether something between the member and `at` would see that the member has not failed yet.
bool Finder::fails_late(ir::NodeId member, const std::vector<ir::NodeId>& nodes, ir::NodeId at) const {
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

bool Finder::is_legal(const std::vector<ir::NodeId>& nodes, ir::NodeId at) const {
  return can_write(at, nodes) && std::none_of(nodes.begin(), nodes.end(), [&](ir::NodeId member) {
           return is_read_early(member, nodes, at) || is_overwritten(member, at) || fails_late(member, nodes, at);
         });
}

// Whether what the node writes is read, by itself and the nodes before it, only where it is written and before it is.
bool Finder::can_write(ir::NodeId id, const std::vector<ir::NodeId>& nodes) const {
  if (!is_writer(id)) return true;
  const ir::ValueId written = ir::written_operands(graph_.node(id)).front();
  const bool is_scatter = kinds_[id] == TermKind::kScatter;
  const bool by_rows = std::any_of(nodes.begin(), nodes.end(), [&](ir::NodeId node) { return is_by_rows(node); });
  const auto is_safe = [&](ir::ValueId read, bool once) {
    if (!aliases_.may_overlap(read, written)) return true;
    return !is_scatter && (!by_rows || once) && aliases_.same_view(read, written);
  };
  const auto own = ir::operands(graph_.node(id));
  const bool reads_itself =
      std::all_of(own.begin() + 1, own.end(), [&](ir::ValueId read) { return is_safe(read, true); });
  return reads_itself && std::all_of(nodes.begin(), nodes.end(), [&](ir::NodeId node) {
           const bool by_place = kinds_[node] == TermKind::kElementwise || is_by_rows(node);
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

// Whether all of the cluster is computed for this part of the concatenation alone.
bool Finder::are_parts(int cluster, ir::NodeId id, ir::ValueId operand) const {
  const Cluster& parts = clusters[cluster];
  const auto& sizes = graph_.value(operand).tensor().sizes;
  if (parts.space != sizes || parts.row + 1 != static_cast<int>(sizes.size())) return false;
  Cluster with_reader{.nodes = parts.nodes};
  with_reader.nodes.push_back(id);
  return std::all_of(parts.nodes.begin(), parts.nodes.end(), [&](ir::NodeId node) {
    return kinds_[node] == TermKind::kElementwise && !leaves(graph_.node(node).results.front(), with_reader);
  });
}

// A concatenation takes over what computes its parts.
void Finder::place_parts(ir::NodeId id, std::vector<Expr> space) {
  const int home = static_cast<int>(clusters.size());
  const int row = static_cast<int>(space.size()) - 1;
  clusters.push_back({.space = std::move(space), .row = row});
  for (const ir::ValueId operand : ir::operands(graph_.node(id))) {
    const ir::NodeId def = graph_.value(operand).def;
    const int cluster = def == ir::kNone ? kNoCluster : cluster_of_[def];
    if (cluster == kNoCluster || cluster == home || !are_parts(cluster, id, operand)) continue;
    merge(home, cluster, id);
  }
  clusters[home].nodes.push_back(id);
  cluster_of_[id] = home;
}

// Gives the nodes of `cluster` to `home`, if they may all run where `id` does.
bool Finder::merge(int home, int cluster, ir::NodeId id) {
  std::vector<ir::NodeId> both = clusters[home].nodes;
  both.insert(both.end(), clusters[cluster].nodes.begin(), clusters[cluster].nodes.end());
  if (!is_legal(both, id)) return false;
  for (const ir::NodeId member : clusters[cluster].nodes) cluster_of_[member] = home;
  clusters[home].nodes = std::move(both);
  clusters[cluster].nodes.clear();
  return true;
}

void Finder::place(ir::NodeId id, std::vector<Expr> space, int row) {
  if (kinds_[id] == TermKind::kConcatenation) return place_parts(id, std::move(space));
  const std::vector<int> found = candidates(id, space);
  // Some may move only together: of two that may fail, the first one not behind the second.
  const auto home_of = [&](int candidate) {
    if (is_legal(clusters[candidate].nodes, id)) return true;
    return std::any_of(found.begin(), found.end(), [&](int other) {
      std::vector<ir::NodeId> both = clusters[candidate].nodes;
      both.insert(both.end(), clusters[other].nodes.begin(), clusters[other].nodes.end());
      return other != candidate && are_alike(candidate, other) && is_legal(both, id) && merge(candidate, other, id);
    });
  };
  const auto at = std::find_if(found.begin(), found.end(), home_of);
  int home = at == found.end() ? kNoCluster : *at;
  for (const int candidate : found) {
    const bool is_other = home != kNoCluster && candidate != home && !clusters[candidate].nodes.empty();
    if (is_other && are_alike(candidate, home)) merge(home, candidate, id);
  }
  if (home == kNoCluster) {
    home = static_cast<int>(clusters.size());
    clusters.push_back({.space = std::move(space), .row = row});
  }
  clusters[home].nodes.push_back(id);
  cluster_of_[id] = home;
}

bool Finder::leaves(ir::ValueId value, const Cluster& cluster) const {
  for (const ir::ValueId name : aliases_.members(aliases_.root(value))) {
    if (uses_.output_uses[name] > 0) return true;
    for (const ir::NodeId user : uses_.users[name]) {
      const bool is_view = !graph_.node(user).views.empty();
      const bool is_inside = name == value && contains(cluster.nodes, user) && reads_by_place(user, value);
      if (!is_view && !is_inside) return true;
    }
  }
  return false;
}

std::vector<ir::ValueId> Finder::results_of(const Cluster& cluster) const {
  std::vector<ir::ValueId> results;
  for (const ir::NodeId member : cluster.nodes) {
    if (is_writer(member)) continue;
    for (const ir::ValueId result : graph_.node(member).results) {
      if (result != ir::kNone && leaves(result, cluster)) results.push_back(result);
    }
  }
  return results;
}

// Whether the values of a cluster that walks along `row` are the sums, in rows of the same places.
bool Finder::lies_as_summed(const ir::Node& product, const ir::TensorType& type, const ir::TensorType& sums,
                            int row) const {
  const auto convolution = find_convolution(graph_, product);
  if (convolution && convolution->channels_last)
    return row == 1 && type.sizes == sums.sizes && type.strides == sums.strides;
  if (row + 1 != static_cast<int>(type.sizes.size()) || !is_dense(type) || !is_dense(sums)) return false;
  return convolution ? has_images_of(type, sums) : type.sizes.back() == sums.sizes.back();
}

// Whether the nodes are all that reads the product, and read it as `view`, element by element.
bool Finder::can_absorb(ir::NodeId product, ir::ValueId view, const Cluster& cluster) const {
  if (!is_product(graph_, graph_.node(product)) && !find_convolution(graph_, graph_.node(product))) return false;
  const ir::ValueId result = graph_.node(product).results.front();
  const auto& type = graph_.value(view).tensor();
  const auto& sums = graph_.value(result).tensor();
  if (type.sizes != cluster.space || !lies_as_summed(graph_.node(product), type, sums, cluster.row)) return false;
  if (is_overwritten(product, cluster.anchor())) return false;
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
  Terms terms(cluster.space, cluster.row);
  for (const ir::NodeId member : cluster.nodes) terms.add(graph_, graph_.node(member));
  if (terms.walks_rows() || !terms.is_plain()) return;
  for (const ir::NodeId member : cluster.nodes) {
    for (const ir::ValueId operand : ir::operands(graph_.node(member))) {
      const ir::NodeId def = graph_.value(aliases_.root(operand)).def;
      if (def == ir::kNone || !can_absorb(def, operand, cluster)) continue;
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

// Elements of a tensor up to which a host operator is done before code for it alone would pay.
constexpr int64_t kSmallTensor = 16 * 1024;
constexpr int64_t kUsualSize = 128;  // what a symbolic size counts as

// Of single nodes, those that move elements anywhere, or many of them. What precompiled kernels and copies of parts do stays
// with them.
bool Finder::is_worth_code(const Cluster& cluster) const {
  if (cluster.nodes.size() > 1) return true;
  const ir::NodeId node = cluster.nodes.front();
  if (kinds_[node] == TermKind::kGather || kinds_[node] == TermKind::kScatter) return true;
  if (kinds_[node] == TermKind::kConcatenation || choose_kernel(graph_, graph_.node(node))) return false;
  int64_t elements = 1;
  for (const Expr& size : cluster.space) elements *= size.as_int().value_or(kUsualSize);
  return elements > kSmallTensor;
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
    if (cluster.product == ir::kNone && !is_worth_code(cluster)) continue;
    if (cluster.product != ir::kNone) cluster_of_[cluster.product] = static_cast<int>(kept.size());
    cluster.results = results_of(cluster);
    if (is_writer(cluster.nodes.back())) cluster.writes = ir::written_operands(graph_.node(cluster.nodes.back()));
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
