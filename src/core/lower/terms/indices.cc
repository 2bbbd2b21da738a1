// SPDX-License-Identifier: Apache-2.0
// Concatenations and gathers.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ir/alias.h"
#include "lower/terms/gather_scatter.h"
#include "lower/terms/rule.h"
#include "lower/terms/writer.h"
#include "tensor/shape.h"

namespace npugraph::lower {

using loop::Builder;
using loop::Value;

namespace {

// (tensors, dim): along the last dimension, of one type and rank.
constexpr size_t kMostJoinedParts = 4;
bool fits_cat(const ir::Graph& graph, const ir::Node& node) {
  const auto* parts = aten::cat::tensors(node);
  const auto* result = tensor_type(graph, node.results.front());
  if (parts == nullptr || result == nullptr || parts->size() > kMostJoinedParts || size_of(result->dtype) > 8)
    return false;
  return !is_complex(result->dtype) && !result->sizes.empty() &&
         dim_of(aten::cat::dim.attr(node), result->sizes.size()) == result->sizes.size() - 1 &&
         std::all_of(parts->begin(), parts->end(), [&](const TensorRef& part) {
           const auto* type = tensor_type(graph, part.id);
           return type != nullptr && type->dtype == result->dtype && type->sizes.size() == result->sizes.size();
         });
}
void write_cat(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const std::vector<TensorRef>& parts = *aten::cat::tensors(node);
  const auto& whole = graph.value(node.results[0]).tensor().sizes;
  const int dim = static_cast<int>(whole.size()) - 1;
  std::vector<int> args = {w.place(dim)};
  std::vector<Expr> ends;
  Expr end = 0;
  for (const TensorRef& part : parts) {
    const Expr size = graph.value(part.id).tensor().sizes.back();
    args.push_back(size == whole.back() ? w.load(part.id) : w.in_part(dim, end, size, [&] { return w.load(part.id); }));
    end = end + size;
    ends.push_back(end);
  }
  w.result(node.results[0], w.map(std::move(args), 1, [ends](Builder& b, Values v) {
    Value out = v.back();
    for (size_t k = v.size() - 2; k > 0; --k) out = loop::select(v[0] < b.index(ends[k - 1]), v[k], out);
    return out;
  }));
}

size_t rank_of(const ir::Graph& graph, ir::ValueId id) { return graph.value(id).tensor().sizes.size(); }

// The dimensions of the index tensors, broadcast together, take the place of the first indexed dimension, or come
// before all others if the indexed dimensions are not adjacent.
void place_dims(const ir::Graph& graph, Gather& gather) {
  const auto& indices = gather.indices;
  size_t& index_rank = gather.index_rank;
  for (const Gather::Index& index : indices) index_rank = std::max(index_rank, rank_of(graph, index.value));
  const size_t first = indices.back().dim - indices.front().dim + 1 == indices.size() ? indices.front().dim : 0;
  gather.first = first;
  for (Gather::Index& index : gather.indices) {
    const size_t rank = rank_of(graph, index.value);
    index.dims = counted(rank, first + index_rank - rank);
  }
  gather.dims.assign(rank_of(graph, gather.self), ir::kNone);
  size_t others = 0;
  for (size_t d = 0; d < gather.dims.size(); ++d) {
    if (std::any_of(indices.begin(), indices.end(), [d](const auto& index) { return index.dim == d; })) continue;
    gather.dims[d] = static_cast<int>(others < first ? others : others + index_rank);
    ++others;
  }
}

bool is_index_tensor(const ir::TensorType* type) {
  return type != nullptr && (type->dtype == DType::kI64 || type->dtype == DType::kI32) && !type->sizes.empty();
}

// The dimension in torch's message counts only those that are indexed.
std::vector<Gather::Index> index_list(const ir::TensorType& self, const Attr& attr) {
  std::vector<Gather::Index> found;
  const auto* list = std::get_if<std::vector<TensorRef>>(&attr);
  for (size_t d = 0; list != nullptr && d < list->size(); ++d) {
    if ((*list)[d].id == TensorRef::kAbsent) continue;
    found.push_back({(*list)[d].id, d, {}, out_of_bounds("IndexError: ", found.size(), self.sizes[d])});
  }
  return found;
}

bool fits_gather(const ir::Graph& graph, const ir::Node& node) {
  return tensor_type(graph, node.results.front()) != nullptr && find_gather(graph, node);
}
void write_gather(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const Gather gather = *find_gather(graph, node);
  w.result(node.results[0], w.load_indexed(gather.self, gather.dims, checked_places(w, graph, gather)));
}

// (self, indices, values, accumulate): if two indices name one place, either value may stay.
bool fits_index_put(const ir::Graph& graph, const ir::Node& node) {
  const auto accumulates = aten::index_put_::accumulate.as_constant(node);
  const auto gather = find_gather(graph, node);
  return accumulates && !accumulates->as_bool() && gather && can_put(graph, node, *gather) &&
         ir::has_distinct_elements(*self_type(graph, node), graph.symbols);
}
std::vector<Expr> index_put_space(const ir::Graph& graph, const ir::Node& node) {
  return selected_sizes(graph, *find_gather(graph, node));
}
void write_index_put(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const Gather gather = *find_gather(graph, node);
  std::vector<TermAccess::Index> places = checked_places(w, graph, gather);
  w.write_indexed(gather.self, w.spread(w.load(aten::index_put_::values(node))), gather.dims, std::move(places));
}

constexpr TermKind kGather = TermKind::kGather;
constexpr RuleRow kIndexRules[] = {
    {aten::cat::kId, {fits_cat, write_cat, TermKind::kConcatenation}},
    {aten::embedding::kId, {fits_gather, write_gather, kGather}},
    {aten::index_select::kId, {fits_gather, write_gather, kGather}},
    {aten::gather::kId, {fits_gather, write_gather, kGather}},
    {aten::index_Tensor::kId, {fits_gather, write_gather, kGather}},
    {aten::_unsafe_index_Tensor::kId, {fits_gather, write_gather, kGather}},
    {aten::index_put_::kId,
     {.fits = fits_index_put,
      .write = write_index_put,
      .kind = TermKind::kScatter,
      .make_space = index_put_space,
      .is_left_to_host = true}},
};

}  // namespace

std::span<const RuleRow> index_rules() { return kIndexRules; }

std::optional<Gather> find_gather(const ir::Graph& graph, const ir::Node& node) {
  const ir::ValueId from = aten::embedding::is(node) ? aten::embedding::weight(node) : self_of(node);
  const auto* self = tensor_type(graph, from);
  if (self == nullptr || self->sizes.empty() || !is_real_element(self->dtype)) return std::nullopt;
  Gather found{.self = from};
  const std::string in_self = "IndexError: index out of range in self";
  // Torch has another message for a table that is empty or not a contiguous matrix.
  const bool is_table =
      self->sizes.size() == 2 && is_contiguous(self->sizes, self->strides) && !numel(self->sizes).is_int(0);
  const bool is_gather = aten::gather::is(node);
  if (aten::embedding::is(node) && is_table) {
    found.indices = {{aten::embedding::indices(node), 0, {}, in_self}};
  } else if (aten::index_select::is(node) && is_table && is_float_tensor(self)) {
    if (dim_of(aten::index_select::dim.attr(node), self->sizes.size()) != 0) return std::nullopt;
    found.indices = {{aten::index_select::index(node), 0, {}, in_self}};
  } else if (is_gather) {
    const auto dim = dim_of(aten::gather::dim.attr(node), self->sizes.size());
    if (!dim) return std::nullopt;
    found.indices = {{aten::gather::index(node), *dim, {}, out_of_bounds("", *dim, self->sizes[*dim])}};
  } else if (ops::is_any<aten::index_Tensor, aten::_unsafe_index_Tensor, aten::index_put, aten::index_put_>(node)) {
    found.indices = index_list(*self, arg::indices(node));
    found.from_end = true;
  }
  const auto fits = [&](const Gather::Index& index) { return is_index_tensor(tensor_type(graph, index.value)); };
  if (found.indices.empty() || !std::all_of(found.indices.begin(), found.indices.end(), fits)) return std::nullopt;
  if (is_gather)
    found.dims = found.indices[0].dims = counted(self->sizes.size());
  else
    place_dims(graph, found);
  return found;
}
std::vector<Expr> selected_sizes(const ir::Graph& graph, const Gather& gather) {
  const auto& self = graph.value(gather.self).tensor().sizes;
  const size_t others = static_cast<size_t>(std::ranges::count_if(gather.dims, [](int d) { return d != ir::kNone; }));
  std::vector<Expr> sizes(others + gather.index_rank, Expr(1));
  for (size_t d = 0; d < self.size(); ++d) {
    if (gather.dims[d] != ir::kNone) sizes[static_cast<size_t>(gather.dims[d])] = self[d];
  }
  for (const Gather::Index& index : gather.indices) {
    const auto& of_index = graph.value(index.value).tensor().sizes;
    for (size_t d = 0; d < of_index.size(); ++d) {
      if (!of_index[d].is_int(1)) sizes[static_cast<size_t>(index.dims[d])] = of_index[d];
    }
  }
  return sizes;
}

std::vector<TermAccess::Index> checked_places(TermWriter& w, const ir::Graph& graph, const Gather& gather) {
  const auto& self = graph.value(gather.self).tensor().sizes;
  std::vector<Expr> others = self;
  for (const Gather::Index& index : gather.indices) others[index.dim] = 1;
  std::vector<TermAccess::Index> places;
  for (const Gather::Index& index : gather.indices) {
    const Expr size = self[index.dim];
    w.check(
        {index.value, gather.from_end ? limit_where_read(size, numel(others)) : size, gather.from_end, index.message});
    places.push_back({index.dim, as_place(w, w.load_along(index.value, index.dims),
                                          gather.from_end ? std::optional(size) : std::nullopt)});
  }
  return places;
}

bool can_put(const ir::Graph& graph, const ir::Node& node, const Gather& gather) {
  const auto* values = tensor_type(graph, arg::values(node));
  const std::vector<Expr> selected = selected_sizes(graph, gather);
  if (values == nullptr || values->dtype != self_type(graph, node)->dtype || values->sizes.size() > selected.size())
    return false;
  const size_t missing = selected.size() - values->sizes.size();
  for (size_t d = 0; d < values->sizes.size(); ++d) {
    if (!values->sizes[d].is_int(1) && !(values->sizes[d] == selected[missing + d])) return false;
  }
  return true;
}

std::vector<int> counted(size_t count, size_t first) {
  std::vector<int> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<int>(first + i);
  return out;
}

int as_place(TermWriter& w, int index, const std::optional<Expr>& from_end) {
  if (from_end) w.reads(*from_end);
  return w.map({index}, 1, [from_end](Builder& b, Values v) {
    const Value place = loop::cast(v[0], DType::kI64);
    return from_end ? loop::select(place < 0.0, place + b.index(*from_end), place) : place;
  });
}

Expr limit_where_read(const Expr& size, const Expr& others) {
  constexpr int64_t kAny = int64_t{1} << 62;
  if (const auto count = others.as_int()) return *count == 0 ? Expr(kAny) : size;
  const Expr some = Expr::make(ExprOp::kMin, {others, 1});
  return size * some + kAny * (1 - some);
}

std::string out_of_bounds(std::string_view begin, size_t dim, const Expr& size) {
  const std::string shown = size.is_constant() ? size.str() : cat("{", size.str(), "}");
  return cat(begin, "index % is out of bounds for dimension ", dim, " with size ", shown);
}

}  // namespace npugraph::lower
