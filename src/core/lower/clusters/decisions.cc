// SPDX-License-Identifier: Apache-2.0
#include "lower/clusters/decisions.h"

#include <algorithm>

#include "base/error.h"
#include "lower/contains.h"
#include "lower/generated/quant.h"
#include "lower/place_parts.h"
#include "lower/terms/terms.h"
#include "ops/operators.h"
#include "ops/table.h"
#include "tensor/shape.h"

namespace npugraph::lower {
namespace {

using ir::Trait;

// Unlike is_contiguous(), this does not leave the strides of dimensions of size 1 open: kernels read them, too.
bool has_row_major_strides(const ir::TensorType& type) { return type.strides == contiguous_strides(type.sizes); }

std::optional<OutVariant> find_out_variant(const ir::Graph& graph, const OperatorCatalog& catalog,
                                           const ir::Node& node) {
  const ir::Op& op = *node.op;
  const bool functional =
      !op.is(Trait::kMutates) && !op.is(Trait::kOpaque) && node.defines.empty() && !node.results.empty();
  const bool strided = std::all_of(node.results.begin(), node.results.end(),
                                   [&](ir::ValueId id) { return id != ir::kNone && graph.value(id).is_tensor(); });
  if (!functional || !strided) return std::nullopt;
  auto variant = catalog.out_variant(op);
  const auto fits = [&](ir::ValueId id) { return has_row_major_strides(graph.value(id).tensor()); };
  if (variant && !variant->any_strides && !std::ranges::all_of(node.results, fits)) return std::nullopt;
  return variant;
}

// The in-place twin of a node, if it has a loop that writes into memory of the result's type. Null if it has none.
const ir::Op* find_writer(const ir::Graph& graph, const ir::Node& node) {
  if (node.op->inplace_twin.empty() || node.results.size() != 1 || node.results.front() == ir::kNone) return nullptr;
  const ir::Op& twin = ops::require(node.op->inplace_twin);
  return lone_form(graph, written_form(node, twin)) ? &twin : nullptr;
}

std::optional<GeneratedNode> choose_generated(const ir::Graph& graph, const ir::Uses& uses, const ir::Node& node) {
  if (auto attention = choose_attention(graph, uses, node)) return attention;
  if (auto convolution = choose_convolution(graph, node)) return convolution;
  return choose_quantised_gather(graph, node);
}

}  // namespace

ir::Node written_form(const ir::Node& node, const ir::Op& twin) {
  ir::Node writes = node;
  writes.op = &twin;
  arg::self(writes) = TensorRef{node.results.front()};
  return writes;
}

Decisions::Decisions(const ir::Graph& graph, bool generate, const ClusterOptions& options)
    : decisions_(graph.num_nodes()) {
  const OperatorCatalog& catalog = *options.catalog;
  const ir::AliasInfo aliases(graph);
  if (generate) clusters_.emplace(graph, aliases, options);
  const ir::Uses uses = generate ? ir::find_uses(graph) : ir::Uses();
  for (const ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (node.dead || !node.views.empty()) continue;
    Decision& decision = decisions_[id];
    decision.kernel = choose_library_kernel(node);
    if (decision.kernel) {
      decision.reason = "a kernel of a user's library";
      continue;
    }
    if (generate) decision.cluster = clusters_->find(id);
    if (decision.cluster != nullptr) continue;
    if (generate && has_index_sizes(graph, node)) decision.generated = choose_generated(graph, uses, node);
    if (decision.generated) continue;
    decision.kernel = catalog.can_run(*node.op) ? choose_kernel(graph, node) : choose_any_kernel(graph, node);
    if (!decision.kernel) decision.out_variant = find_out_variant(graph, catalog, node);
    if (generate && !decision.kernel && !catalog.can_run(*node.op)) decision.into_copy = find_writer(graph, node);
    if (!options.place_parts && is_concatenation(node)) {
      decision.reason = "remove_cat_ops is off";
    } else if (!generate) {
      decision.reason = "generate_code is off";
    } else if (decision.kernel) {
      decision.reason = catalog.can_run(*node.op)
                            ? "small enough for a precompiled kernel, which needs no code of its own"
                            : "a precompiled kernel stands in for the operator, which the host does not have";
    } else {
      const bool has_loop = space_of(graph, node) && !is_left_to_host(graph, node);
      const std::string obstacle = product_obstacle(graph, node, catalog);
      decision.reason = !obstacle.empty() ? obstacle
                        : has_loop        ? "generated code would save no memory traffic here"
                                          : "no generated code for this operator with these operands";
    }
  }
  // Readers first: a node whose elements are computed where they are read does not read its operands.
  for (auto id = graph.order().rbegin(); clusters_ && id != graph.order().rend(); ++id) {
    if (!graph.node(*id).dead && is_read_by_loops_alone(graph, aliases, uses, *id))
      decisions_[*id].is_made_where_read = true;
  }
}

// Whether the node makes a ramp that only loops read.
bool Decisions::is_read_by_loops_alone(const ir::Graph& graph, const ir::AliasInfo& aliases, const ir::Uses& uses,
                                       ir::NodeId node) const {
  const std::vector<ir::ValueId>& results = graph.node(node).results;
  if (results.size() != 1 || !graph.node(node).views.empty() || clusters_->ramps().find(results[0]) == nullptr)
    return false;
  const auto is_in_loop = [&](ir::NodeId user) {
    const Cluster* cluster = decisions_[user].cluster;
    return decisions_[user].is_made_where_read || (cluster != nullptr && contains(cluster->nodes, user));
  };
  for (const ir::ValueId member : aliases.members(results[0])) {
    if (uses.output_uses[member] > 0) return false;
    for (const ir::NodeId user : uses.users[member]) {
      if (!graph.node(user).views.empty()) continue;
      if (clusters_->ramps().find(member) == nullptr || !is_in_loop(user)) return false;
    }
  }
  return true;
}

}  // namespace npugraph::lower
