// SPDX-License-Identifier: Apache-2.0
#include "lower/clusters/cluster.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "ir/graph.h"
#include "lower/arguments.h"
#include "lower/clusters/legality.h"
#include "lower/clusters/score.h"
#include "lower/contains.h"
#include "lower/generated/generated_node.h"
#include "lower/generated/quant.h"
#include "lower/kernel_choice.h"
#include "lower/terms/terms.h"
#include "ops/operators.h"
#include "tensor/shape.h"

namespace npugraph::lower {
namespace {

// Along which dimensions of a space the elements of a value are contiguous. Internal to lower/.

// Whether the elements of the value along dimension `row` of a space of this rank are contiguous, or are one element.
bool is_simple(const ir::TensorType& type, size_t rank, size_t row) {
  const size_t missing = rank - std::min(rank, type.sizes.size());
  if (row < missing || type.sizes[row - missing].is_int(1)) return true;
  return type.strides[row - missing].is_int(1) || type.strides[row - missing].is_int(0);
}

// Whether its elements along dimension `d` are contiguous, and more than one.
bool is_fast(const ir::TensorType& type, size_t rank, size_t d) {
  const size_t missing = rank - std::min(rank, type.sizes.size());
  return d >= missing && !type.sizes[d - missing].is_int(1) && type.strides[d - missing].is_int(1);
}

// Dimensions of a space. Neighbours along `lanes` share vectors; operands that are not simple along it are read in
// tiles of `lanes` and `tile`.
struct Lanes {
  int lanes = 0;
  int tile = ir::kNone;
};

constexpr int kNoCluster = -1;

// Whether dimension 1 is neighbours in memory and the columns of these sums, and their rows go through the others in
// order: images in channels_last, whose pixels are rows.
bool has_pixels_in_rows(const ir::TensorType& type, const ir::TensorType& sums) {
  if (!is_dense(sums) || type.sizes[1] != sums.sizes.back()) return false;
  std::vector<Expr> sizes = type.sizes, strides = type.strides;
  std::rotate(sizes.begin() + 1, sizes.begin() + 2, sizes.end());
  std::rotate(strides.begin() + 1, strides.begin() + 2, strides.end());
  return is_contiguous(sizes, strides);
}

// Whether the value has as many images and channels as the result of a convolution.
bool has_images_of(const ir::TensorType& type, const ir::TensorType& convolution) {
  return type.sizes.size() > 2 && std::equal(type.sizes.begin(), type.sizes.begin() + 2, convolution.sizes.begin());
}

class Finder {
 public:
  Finder(const ir::Graph& graph, const ir::AliasInfo& aliases, const Ramps& ramps, const ClusterOptions& options)
      : graph_(graph),
        aliases_(aliases),
        ramps_(ramps),
        options_(options),
        catalog_(options.catalog),
        uses_(ir::find_uses(graph)),
        kinds_(graph, catalog_),
        legality_(graph, aliases, uses_, kinds_),
        cluster_of_(graph.num_nodes(), kNoCluster) {}

  void run() {
    for (const ir::NodeId id : graph_.order()) {
      if (!options_.join || graph_.node(id).dead || !kinds_.kind(id)) continue;
      auto space = space_of(graph_, graph_.node(id));
      const auto lanes = space ? find_lanes(id, *space) : std::nullopt;
      if (!lanes || !legality_.can_write(id, {})) continue;
      if (!kinds_.is(id, TermKind::kConcatenation))
        place(id, std::move(*space), *lanes);
      else if (options_.place_parts)
        place_parts(id, std::move(*space));
    }
    finish();
  }

  std::vector<Cluster> clusters;

  std::vector<Conflict> conflicts;

  const std::vector<int>& cluster_of() const { return cluster_of_; }

 private:
  bool is_by_rows(ir::NodeId id) const { return kinds_.is(id, TermKind::kRows); }
  bool is_ramp(ir::ValueId value) const { return ramps_.find(value) != nullptr; }
  bool can_walk(ir::NodeId id, size_t rank, size_t row) const;
  std::optional<Lanes> find_lanes(ir::NodeId id, const std::vector<Expr>& space) const;
  std::optional<int> find_tile(ir::NodeId id, size_t rank, size_t lanes) const;
  void place(ir::NodeId id, std::vector<Expr> space, Lanes lanes);
  void place_parts(ir::NodeId id, std::vector<Expr> space);
  bool merge(int home, int cluster, ir::NodeId id);
  bool fits_space(ir::NodeId id, const std::vector<Expr>& own, const Cluster& cluster) const;
  bool can_combine(const Cluster& cluster, const std::vector<int>& walk) const;
  bool has_writer(const Cluster& cluster) const;
  bool may_stand_by_writer(ir::NodeId id) const;
  bool may_have_writers(const Cluster& cluster) const;
  bool can_tile(const Cluster& cluster) const;
  bool are_alike(int a, int b) const;
  bool are_parts(int cluster, ir::NodeId id, ir::ValueId operand) const;
  std::vector<int> candidates(ir::NodeId id, const std::vector<Expr>& space);
  void add_conflict(int cluster, ir::NodeId id);
  bool joins(ir::NodeId id, const std::vector<Expr>& space, int cluster) const;
  void finish();
  bool is_worth_code(const Cluster& cluster) const;
  void find_product(Cluster& cluster) const;
  bool lies_as_summed(const ir::Node& product, ir::ValueId view, int lanes) const;
  bool is_whole(ir::ValueId view, ir::ValueId result) const;
  bool adds_matrix(const ir::Node& product) const;
  bool is_generated_product(const ir::Node& node) const;
  bool may_have_epilogue(const ir::Node& node) const;
  bool can_absorb(ir::NodeId product, ir::ValueId view, const Cluster& cluster) const;
  void add_products(std::vector<Cluster>& kept);
  void add_lone_nodes(std::vector<Cluster>& kept);
  bool is_homeless(ir::NodeId id) const;
  bool may_write(const ir::Node& node) const;
  std::vector<ir::ValueId> results_of(const Cluster& cluster) const;
  bool leaves(ir::ValueId value, const Cluster& cluster) const;

  const ir::Graph& graph_;
  const ir::AliasInfo& aliases_;
  const Ramps& ramps_;
  const ClusterOptions& options_;
  const OperatorCatalog* const catalog_;
  const ir::Uses uses_;
  const NodeKinds kinds_;
  const Legality legality_;
  std::vector<int> cluster_of_;
};

bool Finder::can_walk(ir::NodeId id, size_t rank, size_t row) const {
  const ir::Node& node = graph_.node(id);
  const auto fits = [&](ir::ValueId value) {
    return value == ir::kNone ||
           (graph_.value(value).is_tensor() && is_simple(graph_.value(value).tensor(), rank, row));
  };
  // Operands of a gather may have any strides: an index says where its elements are.
  const auto fits_operand = [&](ir::ValueId value) {
    return is_ramp(value) || kinds_.is(id, TermKind::kGather) || fits(value);
  };
  // So may a result with one value per row, which is in a register before it is stored.
  const auto fits_result = [&](ir::ValueId value) {
    return value == ir::kNone || (is_by_rows(id) && graph_.value(value).tensor().sizes.size() != rank) || fits(value);
  };
  const auto operands = ir::operands(node);
  return std::all_of(operands.begin(), operands.end(), fits_operand) &&
         std::all_of(node.results.begin(), node.results.end(), fits_result);
}

// The dimension whose neighbours share vectors: the last one, or the one along which the results of elementwise nodes
// and the operands of reductions are contiguous.
std::optional<Lanes> Finder::find_lanes(ir::NodeId id, const std::vector<Expr>& space) const {
  const size_t rank = space.size();
  if (is_by_rows(id)) {
    for (size_t d = rank; d-- > 0;) {
      if (!space[d].is_int(1) && can_walk(id, rank, d)) return Lanes{static_cast<int>(d)};
    }
  }
  if (can_walk(id, rank, rank - 1)) return Lanes{static_cast<int>(rank) - 1};
  if (!kinds_.is(id, TermKind::kElementwise) && !kinds_.is(id, TermKind::kWindow)) return std::nullopt;
  const ir::ValueId result = graph_.node(id).results.front();
  for (size_t d = 0; d < rank; ++d) {
    if (!is_fast(graph_.value(result).tensor(), rank, d)) continue;
    if (can_walk(id, rank, d)) return Lanes{static_cast<int>(d)};
    if (const auto tile = find_tile(id, rank, d)) return Lanes{static_cast<int>(d), *tile};
  }
  return std::nullopt;
}

// For an elementwise node whose results are simple along `lanes`: the one dimension along which all operands that are
// not simple there are contiguous.
std::optional<int> Finder::find_tile(ir::NodeId id, size_t rank, size_t lanes) const {
  const ir::Node& node = graph_.node(id);
  const auto is_simple_result = [&](ir::ValueId value) {
    return value == ir::kNone || is_simple(graph_.value(value).tensor(), rank, lanes);
  };
  if (!kinds_.is(id, TermKind::kElementwise) ||
      !std::all_of(node.results.begin(), node.results.end(), is_simple_result))
    return std::nullopt;
  std::optional<int> tile;
  for (const ir::ValueId operand : ir::operands(node)) {
    const ir::TensorType& type = graph_.value(operand).tensor();
    if (is_simple(type, rank, lanes) || is_ramp(operand)) continue;
    size_t fast = 0;
    while (fast < rank && !is_fast(type, rank, fast)) ++fast;
    if (fast == rank || (tile && *tile != static_cast<int>(fast))) return std::nullopt;
    tile = static_cast<int>(fast);
  }
  return tile;
}

// Whether a node of this space has a value for each element of the cluster's space, or one for each of its rows.
bool Finder::fits_space(ir::NodeId id, const std::vector<Expr>& own, const Cluster& cluster) const {
  if (own.size() != cluster.space.size() || (is_by_rows(id) && own != cluster.space)) return false;
  const int last = static_cast<int>(own.size()) - 1;
  for (int d = 0; d <= last; ++d) {
    const bool in_row = cluster.walk.empty() ? d == last && d == cluster.lanes : contains(cluster.walk, d);
    if (!(own[d] == cluster.space[d]) && !(in_row && own[d].is_int(1))) return false;
  }
  return true;
}

// Whether the nodes of a cluster without reductions may join one that combines these dimensions.
bool Finder::can_combine(const Cluster& cluster, const std::vector<int>& walk) const {
  const auto is_cat = [&](ir::NodeId node) { return kinds_.is(node, TermKind::kConcatenation); };
  if (std::any_of(cluster.nodes.begin(), cluster.nodes.end(), is_cat))
    return walk == std::vector{static_cast<int>(cluster.space.size()) - 1};
  const Cluster with = {.space = cluster.space, .lanes = cluster.lanes, .walk = walk};
  return std::all_of(cluster.nodes.begin(), cluster.nodes.end(),
                     [&](ir::NodeId node) { return fits_space(node, *space_of(graph_, graph_.node(node)), with); });
}

bool Finder::has_writer(const Cluster& cluster) const {
  return std::ranges::any_of(cluster.nodes, [&](ir::NodeId node) { return kinds_.is_writer(node); });
}

// Whether the node may be in one cluster with a writer in front of the last node: it touches only elements at the place
// in the space itself, and cannot be the epilogue of a product, which writes no operands.
bool Finder::may_stand_by_writer(ir::NodeId id) const {
  if (!kinds_.is(id, TermKind::kElementwise) && !kinds_.is(id, TermKind::kWrite)) return false;
  return std::ranges::none_of(ir::operands(graph_.node(id)), [&](ir::ValueId operand) {
    const ir::NodeId def = graph_.value(aliases_.root(operand)).def;
    return def != ir::kNone && may_have_epilogue(graph_.node(def));
  });
}

bool Finder::may_have_writers(const Cluster& cluster) const {
  return std::ranges::all_of(cluster.nodes, [&](ir::NodeId node) { return may_stand_by_writer(node); });
}

// Whether the node can be computed in the loops of the cluster.
bool Finder::joins(ir::NodeId id, const std::vector<Expr>& space, int cluster) const {
  const Cluster& home = clusters[cluster];
  if (home.nodes.empty()) return false;
  if (has_writer(home) && !(may_have_writers(home) && may_stand_by_writer(id))) return false;
  Cluster joined = {.space = home.space, .lanes = home.lanes, .walk = home.walk};
  if (const std::vector<int>& walk = kinds_.walk(id); !walk.empty()) {
    if (home.walk.empty() ? !can_combine(home, walk) : walk != home.walk) return false;
    joined.walk = walk;
  }
  if (!fits_space(id, space, joined)) return false;
  const auto lanes = static_cast<size_t>(home.lanes);
  if (can_walk(id, space.size(), lanes)) return home.tile == ir::kNone || kinds_.is(id, TermKind::kElementwise);
  const auto tile = find_tile(id, space.size(), lanes);
  return tile && joined.walk.empty() && can_tile(home) && (home.tile == ir::kNone || home.tile == *tile);
}

bool Finder::can_tile(const Cluster& cluster) const {
  return std::all_of(cluster.nodes.begin(), cluster.nodes.end(),
                     [&](ir::NodeId node) { return kinds_.is(node, TermKind::kElementwise); });
}

// Whether two clusters are loops over the same places.
bool Finder::are_alike(int a, int b) const {
  const Cluster& first = clusters[a];
  const Cluster& second = clusters[b];
  if (first.space != second.space || first.lanes != second.lanes || first.tile != second.tile) return false;
  if ((has_writer(first) || has_writer(second)) && !(may_have_writers(first) && may_have_writers(second))) return false;
  if (first.walk == second.walk) return true;
  return first.walk.empty() ? can_combine(first, second.walk) : second.walk.empty() && can_combine(second, first.walk);
}

// The clusters that operands come from, those that save most first. Operands without elements are skipped: they save
// nothing, and their clusters may loop over other places, because aten.cat takes them beside parts of any size.
std::vector<int> Finder::candidates(ir::NodeId id, const std::vector<Expr>& space) {
  std::vector<std::pair<int, Expr>> scored;
  std::vector<int> found;
  if (kinds_.is(id, TermKind::kConcatenation) || kinds_.reads_elsewhere(id) || contains(options_.apart, id))
    return found;
  for (const ir::ValueId operand : ir::operands(graph_.node(id))) {
    const ir::NodeId def = graph_.value(operand).def;
    const auto* type = std::get_if<ir::TensorType>(&graph_.value(operand).type);
    const int cluster = def == ir::kNone || (type != nullptr && ir::is_empty(*type)) ? kNoCluster : cluster_of_[def];
    const auto is_it = [&](const auto& row) { return row.first == cluster; };
    if (cluster == kNoCluster || std::any_of(scored.begin(), scored.end(), is_it)) continue;
    scored.emplace_back(
        cluster, bytes_between(graph_, graph_.node(id), [&](ir::NodeId node) { return cluster_of_[node] == cluster; }));
  }
  sort_by_score(scored);
  for (const auto& [cluster, bytes] : scored) {
    if (joins(id, space, cluster))
      found.push_back(cluster);
    else
      conflicts.push_back({clusters[cluster].anchor(), id, bytes, "their loops differ"});
  }
  return found;
}

// Records a cluster that `id` could have joined.
void Finder::add_conflict(int cluster, ir::NodeId id) {
  const Expr bytes =
      bytes_between(graph_, graph_.node(id), [&](ir::NodeId node) { return cluster_of_[node] == cluster; });
  const char* objection = legality_.objection(clusters[cluster].nodes, id);
  conflicts.push_back({clusters[cluster].anchor(), id, bytes,
                       objection != nullptr ? objection : "another operand's cluster saves more"});
}

// Whether all nodes of the cluster compute only this part of the concatenation.
bool Finder::are_parts(int cluster, ir::NodeId id, ir::ValueId operand) const {
  const Cluster& parts = clusters[cluster];
  const auto& sizes = graph_.value(operand).tensor().sizes;
  if (parts.space != sizes || parts.lanes + 1 != static_cast<int>(sizes.size())) return false;
  Cluster with_reader{.nodes = parts.nodes};
  with_reader.nodes.push_back(id);
  return std::all_of(parts.nodes.begin(), parts.nodes.end(), [&](ir::NodeId node) {
    return kinds_.is(node, TermKind::kElementwise) && !leaves(graph_.node(node).results.front(), with_reader);
  });
}

// Puts a concatenation into one cluster with the nodes that compute its parts.
void Finder::place_parts(ir::NodeId id, std::vector<Expr> space) {
  const int home = static_cast<int>(clusters.size());
  const int last = static_cast<int>(space.size()) - 1;
  clusters.push_back({.space = std::move(space), .lanes = last});
  for (const ir::ValueId operand : ir::operands(graph_.node(id))) {
    const ir::NodeId def = graph_.value(operand).def;
    const int cluster = def == ir::kNone ? kNoCluster : cluster_of_[def];
    if (cluster == kNoCluster || cluster == home || !are_parts(cluster, id, operand)) continue;
    merge(home, cluster, id);
  }
  clusters[home].nodes.push_back(id);
  cluster_of_[id] = home;
}

// Moves the nodes of `cluster` to `home` if they may all run at the place of `id`. Returns whether they do.
bool Finder::merge(int home, int cluster, ir::NodeId id) {
  std::vector<ir::NodeId> both = clusters[home].nodes;
  both.insert(both.end(), clusters[cluster].nodes.begin(), clusters[cluster].nodes.end());
  if (!legality_.is_legal(both, id)) return false;
  for (const ir::NodeId member : clusters[cluster].nodes) cluster_of_[member] = home;
  if (clusters[home].walk.empty()) clusters[home].walk = clusters[cluster].walk;
  clusters[home].nodes = std::move(both);
  clusters[cluster].nodes.clear();
  return true;
}

void Finder::place(ir::NodeId id, std::vector<Expr> space, Lanes lanes) {
  const std::vector<int> found = candidates(id, space);
  // Some clusters may move only together: of two that may fail, the first one must not move behind the second.
  const auto home_of = [&](int candidate) {
    if (legality_.is_legal(clusters[candidate].nodes, id)) return true;
    return std::any_of(found.begin(), found.end(), [&](int other) {
      std::vector<ir::NodeId> both = clusters[candidate].nodes;
      both.insert(both.end(), clusters[other].nodes.begin(), clusters[other].nodes.end());
      return other != candidate && are_alike(candidate, other) && legality_.is_legal(both, id) &&
             merge(candidate, other, id);
    });
  };
  const auto at = std::find_if(found.begin(), found.end(), home_of);
  int home = at == found.end() ? kNoCluster : *at;
  for (const int candidate : found) {
    const bool is_other = home != kNoCluster && candidate != home && !clusters[candidate].nodes.empty();
    if (is_other && !(are_alike(candidate, home) && merge(home, candidate, id))) add_conflict(candidate, id);
  }
  if (home == kNoCluster)
    for (const int candidate : found) add_conflict(candidate, id);
  if (home == kNoCluster) {
    home = static_cast<int>(clusters.size());
    clusters.push_back({.space = std::move(space), .lanes = lanes.lanes, .tile = lanes.tile});
  } else if (const size_t rank = space.size(); !can_walk(id, rank, static_cast<size_t>(clusters[home].lanes))) {
    clusters[home].tile = *find_tile(id, rank, static_cast<size_t>(clusters[home].lanes));
  }
  if (!kinds_.walk(id).empty()) clusters[home].walk = kinds_.walk(id);
  clusters[home].nodes.push_back(id);
  cluster_of_[id] = home;
}

bool Finder::leaves(ir::ValueId value, const Cluster& cluster) const {
  for (const ir::ValueId name : aliases_.members(aliases_.root(value))) {
    if (uses_.output_uses[name] > 0) return true;
    for (const ir::NodeId user : uses_.users[name]) {
      const bool is_view = !graph_.node(user).views.empty();
      const bool is_inside = name == value && contains(cluster.nodes, user) && kinds_.reads_by_place(user, value);
      if (!is_view && !is_inside) return true;
    }
  }
  return false;
}

std::vector<ir::ValueId> Finder::results_of(const Cluster& cluster) const {
  std::vector<ir::ValueId> results;
  for (const ir::NodeId member : cluster.nodes) {
    if (kinds_.is_writer(member)) continue;
    for (const ir::ValueId result : graph_.node(member).results) {
      if (result != ir::kNone && leaves(result, cluster)) results.push_back(result);
    }
  }
  return results;
}

// Whether a value in the memory of a result has all of its elements. A product computes every row, even those that
// are not read.
bool Finder::is_whole(ir::ValueId view, ir::ValueId result) const {
  const auto& type = graph_.value(view).tensor();
  const auto& all = graph_.value(result).tensor();
  const auto& place = aliases_.placement(view);
  return place.placed && place.byte_offset.is_int(0) && type.dtype == all.dtype &&
         numel(type.sizes) == numel(all.sizes);
}

// Whether the product adds a bias that differs from row to row.
bool Finder::adds_matrix(const ir::Node& product) const {
  if (!aten::addmm::is(product)) return false;
  const auto& sizes = graph_.value(aten::addmm::self(product)).tensor().sizes;
  return sizes.size() > 1 && !sizes[sizes.size() - 2].is_int(1);
}

// Whether `view`, in loops with neighbours along `lanes`, has the sums of the product in the order in which the
// product computes them.
bool Finder::lies_as_summed(const ir::Node& product, ir::ValueId view, int lanes) const {
  const auto& type = graph_.value(view).tensor();
  const auto& sums = graph_.value(product.results.front()).tensor();
  const auto convolution = find_convolution(graph_, product);
  if (!is_whole(view, product.results.front())) return false;
  if (convolution && convolution->channels_last)
    return lanes == 1 && type.sizes == sums.sizes && type.strides == sums.strides;
  if (!convolution && lanes == 1 && type.sizes.size() > 2 && has_pixels_in_rows(type, sums))
    return !adds_matrix(product);
  if (lanes + 1 != static_cast<int>(type.sizes.size()) || !is_dense(type) || !is_dense(sums)) return false;
  if (convolution) return has_images_of(type, sums);
  return type.sizes.back() == sums.sizes.back() && (type.sizes == sums.sizes || !adds_matrix(product));
}

bool Finder::is_generated_product(const ir::Node& node) const {
  return is_product(graph_, node) && has_index_sizes(graph_, node) &&
         (catalog_ == nullptr || !is_packed_otherwise(graph_, node, *catalog_));
}

bool Finder::may_have_epilogue(const ir::Node& node) const {
  return is_generated_product(node) || (find_convolution(graph_, node) && has_index_sizes(graph_, node));
}

// Whether only the cluster's nodes read the product, and all read it as `view`, element by element.
bool Finder::can_absorb(ir::NodeId product, ir::ValueId view, const Cluster& cluster) const {
  if (!may_have_epilogue(graph_.node(product))) return false;
  const ir::ValueId result = graph_.node(product).results.front();
  if (graph_.value(view).tensor().sizes != cluster.space) return false;
  if (!lies_as_summed(graph_.node(product), view, cluster.lanes)) return false;
  if (graph_.node(product).section != graph_.node(cluster.anchor()).section) return false;
  if (legality_.is_overwritten(product, cluster.anchor())) return false;
  for (const ir::ValueId name : aliases_.members(aliases_.root(result))) {
    if (uses_.output_uses[name] > 0) return false;
    for (const ir::NodeId user : uses_.users[name]) {
      if (!graph_.node(user).views.empty()) continue;
      if (name != view || !contains(cluster.nodes, user)) return false;
    }
  }
  return true;
}

// Finds the last product whose epilogue the cluster can be.
void Finder::find_product(Cluster& cluster) const {
  if (!cluster.walk.empty() || cluster.tile != ir::kNone) return;
  Terms terms(cluster.space, cluster.lanes);
  for (const ir::NodeId member : cluster.nodes) terms.add(graph_, graph_.node(member));
  if (!terms.is_plain()) return;
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
    if (node.dead || node.results.empty() || cluster_of_[id] != kNoCluster || !is_generated_product(node)) continue;
    const ir::ValueId result = node.results.front();
    cluster_of_[id] = static_cast<int>(kept.size());
    kept.push_back(
        {.product = id, .product_view = result, .space = graph_.value(result).tensor().sizes, .results = {result}});
  }
}

// Whether neither a cluster, a kernel, code of its own nor the host runs the node.
bool Finder::is_homeless(ir::NodeId id) const {
  const ir::Node& node = graph_.node(id);
  if (node.dead || !node.views.empty() || cluster_of_[id] != kNoCluster || catalog_->can_run(*node.op)) return false;
  return !choose_any_kernel(graph_, node) && !choose_convolution(graph_, node);
}

// Whether the node reads nothing else of the memory that it writes.
bool Finder::may_write(const ir::Node& node) const {
  const std::vector<ir::ValueId> written = ir::written_operands(node);
  const auto operands = ir::operands(node);
  return std::ranges::all_of(operands, [&](ir::ValueId read) {
    return std::ranges::all_of(written, [&](ir::ValueId id) { return id == read || !aliases_.may_overlap(read, id); });
  });
}

// The nodes that would have nothing to run them become loops by themselves.
void Finder::add_lone_nodes(std::vector<Cluster>& kept) {
  if (catalog_ == nullptr) return;
  for (const ir::NodeId id : graph_.order()) {
    if (!is_homeless(id) || !may_write(graph_.node(id))) continue;
    auto form = lone_form(graph_, graph_.node(id));
    if (!form) continue;
    Cluster cluster{
        .nodes = {id}, .space = std::move(form->space), .lanes = form->lanes, .walk = std::move(form->walk)};
    cluster.writes = ir::written_operands(graph_.node(id));
    if (cluster.writes.empty()) cluster.results = results_of(cluster);
    cluster_of_[id] = static_cast<int>(kept.size());
    kept.push_back(std::move(cluster));
  }
}

// Largest number of elements for which a host operator is faster than generated code for it alone.
constexpr int64_t kSmallTensor = 16 * 1024;

// Whether the cluster becomes generated code. A single node does if it gathers or scatters, or if nothing else can run
// it. Any other single node, unless it is a concatenation, does if it reads a ramp (which then needs no task), or if it
// has many elements and no precompiled kernel.
bool Finder::is_worth_code(const Cluster& cluster) const {
  if (cluster.nodes.size() > 1) return true;
  const ir::NodeId node = cluster.nodes.front();
  if (kinds_.is(node, TermKind::kGather) || kinds_.is(node, TermKind::kScatter)) return true;
  const bool has_kernel = choose_kernel(graph_, graph_.node(node)).has_value();
  if (catalog_ != nullptr && !has_kernel && !catalog_->can_run(*graph_.node(node).op)) return true;
  if (kinds_.is(node, TermKind::kConcatenation)) return false;
  const auto operands = ir::operands(graph_.node(node));
  if (std::any_of(operands.begin(), operands.end(), [&](ir::ValueId operand) { return is_ramp(operand); })) return true;
  if (has_kernel) return false;
  int64_t elements = 1;
  for (const Expr& size : cluster.space) elements *= size.as_int().value_or(kUsualSize);
  return elements > kSmallTensor;
}

// Sorts the nodes of clusters, finds the products in front of them, and drops clusters that are not worth code.
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
    for (const ir::NodeId member : cluster.nodes) {
      if (kinds_.is_writer(member)) cluster.writes.push_back(ir::written_operands(graph_.node(member)).front());
    }
    cluster.saved_bytes = bytes_saved(graph_, uses_, cluster.nodes, cluster.results);
    for (const ir::NodeId member : cluster.nodes) cluster_of_[member] = static_cast<int>(kept.size());
    kept.push_back(std::move(cluster));
  }
  add_products(kept);
  add_lone_nodes(kept);
  clusters = std::move(kept);
}

}  // namespace

Clusters::Clusters(const ir::Graph& graph, const ir::AliasInfo& aliases, const ClusterOptions& options)
    : ramps_(graph, aliases) {
  Finder finder(graph, aliases, ramps_, options);
  finder.run();
  clusters_ = std::move(finder.clusters);
  conflicts_ = std::move(finder.conflicts);
  cluster_of_ = finder.cluster_of();
}

const Cluster* Clusters::find(ir::NodeId node) const {
  const int cluster = cluster_of_[node];
  return cluster == kNoCluster ? nullptr : &clusters_[cluster];
}

}  // namespace npugraph::lower
