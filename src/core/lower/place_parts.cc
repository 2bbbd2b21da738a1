// SPDX-License-Identifier: Apache-2.0
#include "lower/place_parts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ops/node_facts.h"
#include "ops/operators.h"

namespace npugraph::lower {
namespace {

constexpr size_t kMaxRank = 8;  // highest rank that kernel.copy takes
constexpr int32_t kReturned = INT32_MAX;
constexpr int64_t kAlignment = 64;  // bytes, of memory from the host; the sums of a product may depend on it

// Whether the node moves or computes elements in the same way for all strides.
bool is_indifferent(const ir::Graph& graph, const ir::Node& node) {
  return ops::is_exact(graph, node) || is_concatenation(node);
}

// Returns the strides of `view`, which permutes the dimensions of `part`, if `part` has `strides` instead of its own.
// Returns nullopt if `view` is not such a permutation (dimensions of size 1 aside).
std::optional<std::vector<Expr>> rearrange(const ir::TensorType& view, const ir::TensorType& part,
                                           const std::vector<Expr>& strides) {
  std::vector<Expr> arranged = view.strides;
  std::vector<bool> taken(part.sizes.size(), false);
  for (size_t i = 0; i < part.sizes.size(); ++i) taken[i] = part.sizes[i].is_int(1);
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i].is_int(1)) continue;
    size_t from = 0;
    while (from < taken.size() &&
           (taken[from] || part.sizes[from] != view.sizes[i] || part.strides[from] != view.strides[i])) {
      ++from;
    }
    if (from == taken.size()) return std::nullopt;
    taken[from] = true;
    arranged[i] = strides[from];
  }
  if (std::find(taken.begin(), taken.end(), false) != taken.end()) return std::nullopt;
  return arranged;
}

// Whether the window has the strides and alignment of memory of its own, so that no operator can tell the difference.
bool same_layout(const ir::TensorType& type, const Window& window) {
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    if (!type.sizes[i].is_int(1) && type.strides[i] != window.strides[i]) return false;
  }
  return Expr::make(ExprOp::kFloorDiv, {window.byte_offset, kAlignment}) * Expr(kAlignment) == window.byte_offset;
}

}  // namespace

bool is_concatenation(const ir::Node& node) { return ops::is_any<aten::cat, aten::stack>(node); }

PartPlaces::PartPlaces(const ir::Graph& graph, const ir::AliasInfo& aliases,
                       std::function<bool(const ir::Node&)> writes_into, const std::function<Apart(ir::NodeId)>& apart)
    : graph_(graph), aliases_(aliases), writes_into_(std::move(writes_into)), uses_(ir::find_uses(graph)) {
  find_last_uses();
  // An outer concatenation comes before an inner one, because the inner one is placed in it.
  const auto& order = graph.order();
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    if (graph.node(*id).dead || !is_concatenation(graph.node(*id)) || apart(*id) == Apart::kNever) continue;
    take_apart(*id, apart(*id) == Apart::kAlways);
  }
}

void PartPlaces::find_last_uses() {
  last_use_.assign(graph_.num_values(), ir::kNone);
  for (ir::ValueId id = 0; id < graph_.num_values(); ++id) {
    int32_t& last = last_use_[aliases_.root(id)];
    if (!uses_.users[id].empty()) last = std::max(last, uses_.position[uses_.users[id].back()]);
    if (uses_.output_uses[id] != 0) last = kReturned;
  }
  for (const ir::NodeId id : graph_.order()) {
    if (graph_.node(id).dead) continue;
    for (const ir::SymbolDef& def : graph_.node(id).defines) late_symbols_.push_back(def.symbol);
  }
}

bool PartPlaces::has_late_sizes(ir::ValueId id) const {
  if (late_symbols_.empty()) return false;
  std::vector<std::string> symbols;
  for (const Expr& size : graph_.value(id).tensor().sizes) collect_symbols(size, symbols);
  return std::any_of(symbols.begin(), symbols.end(), [&](const std::string& symbol) {
    return std::find(late_symbols_.begin(), late_symbols_.end(), symbol) != late_symbols_.end();
  });
}

ir::ValueId PartPlaces::host(ir::ValueId root) const {
  const auto place = places_.find(root);
  return place == places_.end() ? root : place->second.host;
}

Window PartPlaces::window(ir::ValueId id) const {
  const ir::TensorType& type = graph_.value(id).tensor();
  const auto place = places_.find(aliases_.root(id));
  if (place == places_.end()) return {aliases_.placement(id).byte_offset, type.strides};
  const Part& part = place->second.part;
  return {part.window.byte_offset, *rearrange(type, graph_.value(part.value).tensor(), part.window.strides)};
}

const std::vector<Part>* PartPlaces::parts(ir::NodeId cat) const {
  const auto found = parts_.find(cat);
  return found == parts_.end() ? nullptr : &found->second;
}

// nullopt if the node converts, or takes operands of other ranks, as ATen allows for empty ones. Empty parts are left
// out, but for the first one if there are no others: some task has to write the result.
std::optional<std::vector<Part>> PartPlaces::list_parts(ir::NodeId cat) const {
  const ir::Node& node = graph_.node(cat);
  const ir::TensorType& whole = graph_.value(node.results[0]).tensor();
  const auto* operands = std::get_if<std::vector<TensorRef>>(&arg::tensors(node));
  const std::optional<int64_t> given = ops::as_int(arg::dim(node));
  if (operands == nullptr || !given || whole.sizes.size() > kMaxRank) return std::nullopt;
  const bool stack = aten::stack::is(node);
  const auto dim = static_cast<size_t>(*given < 0 ? *given + static_cast<int64_t>(whole.sizes.size()) : *given);
  Window window = this->window(node.results[0]);
  const Expr step = window.strides[dim] * Expr(size_of(whole.dtype));
  if (stack) window.strides.erase(window.strides.begin() + static_cast<std::ptrdiff_t>(dim));
  std::vector<Part> parts;
  for (const TensorRef ref : *operands) {
    const auto* type = std::get_if<ir::TensorType>(&graph_.value(ref.id).type);
    if (type == nullptr || type->dtype != whole.dtype || type->sizes.size() != window.strides.size())
      return std::nullopt;
    if (ir::is_empty(whole) ? parts.empty() : !ir::is_empty(*type)) parts.push_back({ref.id, window});
    window.byte_offset = window.byte_offset + step * (stack ? Expr(1) : type->sizes[dim]);
  }
  return parts;
}

void PartPlaces::take_apart(ir::NodeId cat, bool always) {
  if (!graph_.value(graph_.node(cat).results[0]).is_tensor() || has_late_sizes(graph_.node(cat).results[0])) return;
  std::optional<std::vector<Part>> parts = list_parts(cat);
  if (!parts) return;
  bool any = always;
  for (Part& part : *parts) {
    place(cat, part);
    any |= part.obstacle == nullptr;
  }
  if (any) parts_.emplace(cat, *std::move(parts));
}

void PartPlaces::place(ir::NodeId cat, Part& part) {
  part.obstacle = find_obstacle(cat, part);
  if (part.obstacle != nullptr) return;
  places_.emplace(aliases_.root(part.value), Place{host(graph_.node(cat).results[0]), part});
}

// Returns why the part cannot be placed. Returns null if a task can write it into given memory, only nodes up to the
// concatenation and in its section touch that memory, and all of them can use the window of the concatenation.
const char* PartPlaces::find_obstacle(ir::NodeId cat, const Part& part) const {
  const ir::ValueId root = aliases_.root(part.value);
  const ir::NodeId def = graph_.value(root).def;
  if (def == ir::kNone) return "it is an input or a constant";
  if (last_use_[root] != uses_.position[cat]) return "it is used later, too";
  if (places_.contains(root)) return "its memory stands in a concatenation already";
  if (graph_.node(def).section != graph_.node(cat).section)
    return "it is computed in another stream, or on the other side of an event";
  if (!writes_into_(graph_.node(def))) return "its operator writes into no memory that it is given";
  return fits(part, root) ? nullptr : "its elements or its alignment would be others there";
}

bool PartPlaces::fits(const Part& part, ir::ValueId root) const {
  const ir::TensorType& type = graph_.value(part.value).tensor();
  const bool same = same_layout(type, part.window);
  const ir::NodeId def = graph_.value(root).def;
  if (!same && !is_indifferent(graph_, graph_.node(def))) return false;
  const auto allowed = [&](ir::NodeId user) {
    const ir::Node& node = graph_.node(user);
    return !node.views.empty() || (node.section == graph_.node(def).section && (same || is_indifferent(graph_, node)));
  };
  const auto& members = aliases_.members(root);
  return std::all_of(members.begin(), members.end(), [&](ir::ValueId id) {
    const auto& placement = aliases_.placement(id);
    if (!placement.placed || !placement.byte_offset.is_int(0) || graph_.value(id).tensor().dtype != type.dtype)
      return false;
    return rearrange(graph_.value(id).tensor(), type, part.window.strides) &&
           std::all_of(uses_.users[id].begin(), uses_.users[id].end(), allowed);
  });
}

}  // namespace npugraph::lower
