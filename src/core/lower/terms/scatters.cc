// SPDX-License-Identifier: Apache-2.0
// Elements that are written at places from an index.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ir/alias.h"
#include "lower/generated/ramps.h"
#include "lower/terms/gather_scatter.h"
#include "lower/terms/rule.h"
#include "lower/terms/terms.h"
#include "tensor/shape.h"

namespace npugraph::lower {

std::optional<Scatter> find_scatter(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  const auto* index = tensor_type(graph, arg::index(node));
  const Attr* source = arg::src.find(node);
  if (source == nullptr) source = &arg::value(node);
  const auto* type = tensor_type(graph, *source);
  if (self == nullptr || index == nullptr || self->sizes.empty() || index->sizes.size() != self->sizes.size() ||
      (index->dtype != DType::kI64 && index->dtype != DType::kI32) || !is_real_element(self->dtype))
    return std::nullopt;
  const auto dim = dim_of(arg::dim(node), self->sizes.size());
  const auto number = ops::as_constant(*source);
  const bool fits = type != nullptr ? type->dtype == self->dtype && type->sizes.size() == self->sizes.size()
                                    : number && can_hold(self->dtype, *number);
  if (!dim || !fits) return std::nullopt;
  return Scatter{.dim = *dim,
                 .adds = ops::is_any<aten::scatter_add, aten::scatter_add_>(node),
                 .index = ops::as_value(arg::index(node)),
                 .source = ops::as_value(*source),
                 .number = number};
}

using loop::Builder;
using loop::Value;

namespace {

// (self, dim, index, source)
bool fits_index_copy(const ir::Graph& graph, const ir::Node& node) {
  using Copy = aten::index_copy_;
  const auto* self = tensor_type(graph, Copy::self(node));
  const auto* index = tensor_type(graph, Copy::index(node));
  const auto* source = tensor_type(graph, Copy::source(node));
  if (self == nullptr || index == nullptr || source == nullptr || self->sizes.empty()) return false;
  const auto dim = dim_of(Copy::dim.attr(node), self->sizes.size());
  return dim && source->sizes.size() == self->sizes.size() && source->dtype == self->dtype &&
         is_real_element(self->dtype) && index->dtype == DType::kI64 && index->sizes.size() == 1 &&
         index->sizes[0] == source->sizes[*dim] && ir::has_distinct_elements(*self, graph.symbols);
}
void write_index_copy(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  using Copy = aten::index_copy_;
  const auto& self = graph.value(Copy::self(node)).tensor().sizes;
  const size_t dim = *dim_of(Copy::dim.attr(node), self.size());
  const ir::ValueId index = Copy::index(node);
  std::vector<Expr> others = self;
  others[dim] = 1;
  w.check({index, limit_where_read(self[dim], numel(others)), false,
           out_of_bounds("IndexError: index_copy_(): ", dim, self[dim])});
  const int place = as_place(w, w.load_along(index, {static_cast<int>(dim)}), std::nullopt);
  w.write_indexed(Copy::self(node), w.load(Copy::source(node)), counted(self.size()), {{dim, place}});
}

bool has_sizes_of(const ir::TensorType& source, const ir::TensorType& index, size_t but_dim) {
  if (source.sizes.size() != index.sizes.size()) return false;
  for (size_t d = 0; d < source.sizes.size(); ++d) {
    if (d != but_dim && !(source.sizes[d] == index.sizes[d])) return false;
  }
  return true;
}

const ir::TensorType* index_type(const ir::Graph& graph, const ir::Node& node) {
  return tensor_type(graph, arg::index(node));
}

// A scatter that reads as many elements of the source as the index has: the whole source, or its first element along
// the dimension.
std::optional<Scatter> find_even_scatter(const ir::Graph& graph, const ir::Node& node) {
  const auto found = find_scatter(graph, node);
  if (!found || index_type(graph, node)->dtype != DType::kI64) return std::nullopt;
  const auto* self = self_type(graph, node);
  const bool fits_source = found->source == ir::kNone ||
                           has_sizes_of(graph.value(found->source).tensor(), *index_type(graph, node), found->dim);
  const bool fits_sum =
      !found->adds || is_float_tensor(self) || self->dtype == DType::kI64 || self->dtype == DType::kI32;
  return fits_source && fits_sum ? found : std::nullopt;
}

// The index has one element along the dimension, so that comparing each place with it is enough.
bool fits_scatter_by_place(const ir::Graph& graph, const ir::Node& node) {
  const auto scatter = find_even_scatter(graph, node);
  if (!scatter || tensor_type(graph, node.results.front()) == nullptr) return false;
  const auto& self = self_type(graph, node)->sizes;
  const auto& index = index_type(graph, node)->sizes;
  for (size_t d = 0; d < self.size(); ++d) {
    if (!(d == scatter->dim ? index[d].is_int(1) : index[d] == self[d])) return false;
  }
  return true;
}

// The term of a written element. It uses the terms of `old` and `source`, which are called only if needed.
template <typename Old, typename Source>
int new_element(TermWriter& w, DType dtype, const Scatter& scatter, Old old, Source source) {
  if (scatter.number) {
    return w.spread(
        w.map({}, 0, [dtype, number = *scatter.number](Builder& b, Values) { return emit_number(b, dtype, number); }));
  }
  if (!scatter.adds) return source();
  const DType sum = compute_type(dtype);
  return w.map({old(), source()}, 1, [dtype, sum](Builder&, Values v) {
    return loop::cast(loop::cast(v[0], sum) + loop::cast(v[1], sum), dtype);
  });
}

int checked_place(TermWriter& w, const ir::Graph& graph, const ir::Node& node, size_t dim) {
  const Expr size = self_type(graph, node)->sizes[dim];
  const ir::ValueId index = ops::as_value(arg::index(node));
  w.check({index, size, false, out_of_bounds("", dim, size)});
  return as_place(w, w.load(index), std::nullopt);
}

void write_scatter_by_place(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const Scatter scatter = *find_even_scatter(graph, node);
  const auto& type = *self_type(graph, node);
  const int place = checked_place(w, graph, node, scatter.dim);
  const int old = w.load(self_of(node));
  const int changed = new_element(
      w, type.dtype, scatter, [&] { return old; },
      [&] {
        std::vector<int> dims(type.sizes.size());
        for (size_t d = 0; d < dims.size(); ++d) dims[d] = d == scatter.dim ? ir::kNone : static_cast<int>(d);
        return w.load_along(scatter.source, std::move(dims));
      });
  w.result(node.results[0], w.map({w.place(static_cast<int>(scatter.dim)), place, changed, old}, 2,
                                  [](Builder&, Values v) { return loop::select(v[0] == v[1], v[2], v[3]); }));
}

// If there may be duplicates, they all write the same number.
bool fits_scatter_write(const ir::Graph& graph, const ir::Node& node) {
  const auto scatter = find_even_scatter(graph, node);
  if (!scatter) return false;
  const auto is_single = [&](const ir::TensorType* type) { return type->sizes[scatter->dim].is_int(1); };
  const auto* index = index_type(graph, node);
  return (scatter->number || (is_single(index) && is_single(tensor_type(graph, TensorRef{scatter->source})))) &&
         ir::has_distinct_elements(*self_type(graph, node), graph.symbols);
}
void write_scatter_write(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const Scatter scatter = *find_even_scatter(graph, node);
  const auto& type = *self_type(graph, node);
  const int place = checked_place(w, graph, node, scatter.dim);
  const int changed = new_element(
      w, type.dtype, scatter,
      [&] { return w.load_indexed(self_of(node), counted(type.sizes.size()), {{scatter.dim, place}}); },
      [&] { return w.load(scatter.source); });
  w.write_indexed(self_of(node), changed, counted(type.sizes.size()), {{scatter.dim, place}});
}

constexpr Rule kByPlace = {fits_scatter_by_place, write_scatter_by_place, TermKind::kGather};
constexpr Rule kInto = {fits_scatter_write, write_scatter_write, TermKind::kScatter, arg::index};
constexpr RuleRow kScatterRules[] = {
    {aten::index_copy_::kId, {fits_index_copy, write_index_copy, TermKind::kScatter, arg::source}},
    {aten::scatter_src::kId, kByPlace},
    {aten::scatter_value::kId, kByPlace},
    {aten::scatter_add::kId, kByPlace},
    {aten::scatter__src::kId, kInto},
    {aten::scatter__value::kId, kInto},
    {aten::scatter_add_::kId, kInto},
};

}  // namespace

std::span<const RuleRow> scatter_rules() { return kScatterRules; }

bool is_index_operand(const ir::Node& node, ir::ValueId value) {
  if (const Attr* one = arg::index.find(node)) return ops::as_value(*one) == value;
  const auto* list = std::get_if<std::vector<TensorRef>>(&arg::indices(node));
  return list != nullptr && std::ranges::any_of(*list, [&](const TensorRef& index) { return index.id == value; });
}

}  // namespace npugraph::lower
