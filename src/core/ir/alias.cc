// SPDX-License-Identifier: Apache-2.0
#include "ir/alias.h"

#include <algorithm>

#include "ir/bounds.h"
#include "tensor/shape.h"

namespace npugraph::ir {
namespace {

// One dimension of a view: addresses 0, stride, ..., (size - 1) * stride.
struct Dim {
  Expr size;
  Expr stride;
};

// Whether different indices certainly give different addresses. Ignores dimensions of stride 0.
bool is_injective(std::vector<Dim> dims, const std::vector<Symbol>& symbols) {
  // Innermost first: known strides by size, then symbolic ones from the last dimension to the first.
  std::reverse(dims.begin(), dims.end());
  std::stable_sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) {
    const auto x = a.stride.as_int();
    const auto y = b.stride.as_int();
    return x && (!y || *x < *y);
  });
  std::erase_if(dims, [](const Dim& dim) { return dim.size.is_int(1) || dim.stride.is_int(0); });
  Expr reach;  // largest address of the dimensions seen
  while (!dims.empty()) {
    // One that lies behind those without a gap, as in transposed tensors that are dense; otherwise the next.
    auto next = std::find_if(dims.begin(), dims.end(), [&](const Dim& dim) { return dim.stride == reach + 1; });
    if (next == dims.end()) next = dims.begin();
    if (!is_nonnegative(next->stride - reach - 1, symbols)) return false;
    reach = reach + (next->size - 1) * next->stride;
    dims.erase(next);
  }
  return true;
}

// Whether two boxes of one lattice, the second `distance` elements after the first, certainly share no element. Looks
// for a larger box that contains both as separate parts: one that is longer along a dimension whose stride divides the
// distance (slices of one base), or one with a new dimension of size 2 along the distance (selected rows). If the
// larger box is injective, the parts are disjoint.
bool is_disjoint_in_lattice(const TensorType& first, const TensorType& second, const Expr& distance,
                            const std::vector<Symbol>& symbols) {
  std::vector<Dim> joint;
  for (size_t i = 0; i < first.sizes.size(); ++i) {
    if (first.strides[i] != second.strides[i]) return false;
    const auto a = first.sizes[i].as_int();
    const auto b = second.sizes[i].as_int();
    if (first.sizes[i] != second.sizes[i] && !(a && b)) {
      joint.push_back({first.sizes[i] + second.sizes[i], first.strides[i]});
    } else {
      joint.push_back({a && b ? Expr(std::max(*a, *b)) : first.sizes[i], first.strides[i]});
    }
  }
  for (size_t k = 0; k < joint.size(); ++k) {
    const Expr& stride = first.strides[k];
    if (stride.is_int(0)) continue;
    const Expr steps = Expr::make(ExprOp::kFloorDiv, {distance, stride});
    if (steps * stride != distance || !is_nonnegative(steps - first.sizes[k], symbols)) continue;
    auto along = joint;
    along[k].size = steps + second.sizes[k];
    if (is_injective(std::move(along), symbols)) return true;
  }
  joint.push_back({Expr(2), distance});
  return is_nonnegative(distance - 1, symbols) && is_injective(std::move(joint), symbols);
}

Expr bytes_of(const TensorType& type) { return extent(type.sizes, type.strides) * Expr(size_of(type.dtype)); }

}  // namespace

bool is_empty(const TensorType& type) {
  return std::any_of(type.sizes.begin(), type.sizes.end(), [](const Expr& size) { return size.is_int(0); });
}

bool has_distinct_elements(const TensorType& type, const std::vector<Symbol>& symbols) {
  std::vector<Dim> dims;
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    if (type.strides[i].is_int(0) && !type.sizes[i].is_int(1)) return false;
    dims.push_back({type.sizes[i], type.strides[i]});
  }
  return is_injective(std::move(dims), symbols);
}

AliasInfo::AliasInfo(const Graph& graph)
    : graph_(graph), root_(graph.num_values()), members_(graph.num_values()), placement_(graph.num_values()) {
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    root_[id] = id;
    placement_[id].placed = graph.value(id).is_tensor();
    if (graph.value(id).def == kNone) members_[id].push_back(id);
  }
  for (const NodeId id : graph.order()) {
    if (!graph.node(id).dead) add_results(graph.node(id));
  }
}

void AliasInfo::add_results(const Node& node) {
  const auto returned = returned_operands(node);
  const auto shared = shared_operands(node);
  const auto used = node.op->is(Trait::kView) ? operands(node) : std::vector<ValueId>();
  for (size_t i = 0; i < node.results.size(); ++i) {
    const ValueId result = node.results[i];
    if (result == kNone) continue;
    if (returned[i] != kNone) {
      root_[result] = root_[returned[i]];
      placement_[result] = placement_[returned[i]];
    } else if (!used.empty()) {
      place_view(result, used.front(), i < node.views.size() ? &node.views[i] : nullptr);
    } else if (shared[i] != kNone) {
      place_view(result, shared[i], nullptr);
    }
    members_[root_[result]].push_back(result);
  }
}

void AliasInfo::place_view(ValueId result, ValueId base, const View* view) {
  root_[result] = root_[base];
  Placement& place = placement_[result];
  place.placed = view != nullptr && placement_[base].placed && graph_.value(result).is_tensor();
  if (!place.placed) return;
  place.byte_offset = placement_[base].byte_offset + view->offset * Expr(size_of(graph_.value(result).tensor().dtype));
}

bool AliasInfo::same_view(ValueId a, ValueId b) const {
  if (a == b) return true;
  if (root_[a] != root_[b] || !placement_[a].placed || !placement_[b].placed) return false;
  return placement_[a].byte_offset == placement_[b].byte_offset && graph_.value(a).tensor() == graph_.value(b).tensor();
}

bool AliasInfo::may_overlap(ValueId a, ValueId b) const {
  if (root_[a] != root_[b]) return false;
  if (!graph_.value(a).is_tensor() || !graph_.value(b).is_tensor()) return true;
  const TensorType* first = &graph_.value(a).tensor();
  const TensorType* second = &graph_.value(b).tensor();
  if (is_empty(*first) || is_empty(*second)) return false;
  if (!placement_[a].placed || !placement_[b].placed) return true;

  Expr distance = placement_[b].byte_offset - placement_[a].byte_offset;
  if (!is_nonnegative(distance, graph_.symbols)) {
    distance = Expr(0) - distance;
    std::swap(first, second);
    if (!is_nonnegative(distance, graph_.symbols)) return true;
  }
  if (is_nonnegative(distance - bytes_of(*first), graph_.symbols)) return false;
  if (first->dtype != second->dtype || first->sizes.size() != second->sizes.size()) return true;
  const Expr element = size_of(first->dtype);
  const Expr elements = Expr::make(ExprOp::kFloorDiv, {distance, element});
  if (elements * element != distance) return true;
  return !is_disjoint_in_lattice(*first, *second, elements, graph_.symbols);
}

}  // namespace npugraph::ir
