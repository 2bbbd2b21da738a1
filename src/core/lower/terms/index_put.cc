// SPDX-License-Identifier: Apache-2.0
// Elements that are written at places from an index, any number of them to one place: for each element of the result, a
// loop over the whole index finds what is written there.
#include <optional>
#include <utility>

#include "ir/alias.h"
#include "lower/generated/ramps.h"
#include "lower/terms/gather_scatter.h"
#include "lower/terms/rule.h"

namespace npugraph::lower {

using loop::Builder;
using loop::Combine;
using loop::Value;

namespace {

size_t rank_of_self(const ir::Graph& graph, const ir::Node& node) { return self_type(graph, node)->sizes.size(); }

bool can_add(DType dtype) {
  return (is_floating(dtype) && size_of(dtype) > 1) || (is_integral(dtype) && dtype != DType::kBool);
}

// An operator that writes needs elements that do not share memory; one that does not needs a result.
bool has_place_for_result(const ir::Graph& graph, const ir::Node& node) {
  if (!node.op->is(ir::Trait::kMutates)) return tensor_type(graph, node.results.front()) != nullptr;
  return ir::has_distinct_elements(*self_type(graph, node), graph.symbols);
}

void put(TermWriter& w, const ir::Node& node, int term) {
  if (!node.op->is(ir::Trait::kMutates)) return w.result_without_row(node.results.front(), term);
  w.write_without_row(self_of(node), node.results.front(), term);
}

int old_element(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  return w.load_along(self_of(node), counted(rank_of_self(graph, node)));
}

// The old element, plus the elements of `source` where `matches` is true.
int with_sum(TermWriter& w, DType dtype, int old, int matches, int source) {
  const DType sum = compute_type(dtype);
  const int added = w.map({matches, source}, 2, [sum](Builder& b, Values v) {
    return loop::select(v[0], loop::cast(v[1], sum), b.constant(sum, 0));
  });
  return w.map({old, w.reduce(Combine::kSum, added)}, 1,
               [sum](Builder&, Values v) { return loop::cast(v[0], sum) + v[1]; });
}

// index_put that accumulates. The space has the dimensions of self, and behind them those of the indices.
bool fits_index_sum(const ir::Graph& graph, const ir::Node& node) {
  const auto accumulates = ops::as_constant(arg::accumulate(node));
  const auto gather = find_gather(graph, node);
  return accumulates && accumulates->as_bool() && gather && can_add(self_type(graph, node)->dtype) &&
         can_put(graph, node, *gather) && has_place_for_result(graph, node);
}
std::vector<Expr> index_sum_space(const ir::Graph& graph, const ir::Node& node) {
  const Gather gather = *find_gather(graph, node);
  const std::vector<Expr> selected = selected_sizes(graph, gather);
  std::vector<Expr> space = self_type(graph, node)->sizes;
  for (size_t d = 0; d < gather.index_rank; ++d) space.push_back(selected[gather.first + d]);
  return space;
}
std::vector<int> index_sum_walk(const ir::Graph& graph, const ir::Node& node) {
  return counted(find_gather(graph, node)->index_rank, rank_of_self(graph, node));
}
void write_index_sum(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  Gather gather = *find_gather(graph, node);
  const size_t rank = rank_of_self(graph, node);
  // Where the dimensions of what the indices select are in the space.
  std::vector<int> dims(selected_sizes(graph, gather).size());
  for (size_t d = 0; d < gather.index_rank; ++d) dims[gather.first + d] = static_cast<int>(rank + d);
  for (size_t d = 0; d < rank; ++d) {
    if (gather.dims[d] != ir::kNone) dims[static_cast<size_t>(gather.dims[d])] = static_cast<int>(d);
  }
  for (Gather::Index& index : gather.indices) {
    for (int& d : index.dims) d = dims[static_cast<size_t>(d)];
  }
  int matches = ir::kNone;
  for (const TermAccess::Index& index : checked_places(w, graph, gather)) {
    const int is_it =
        w.map({w.place(static_cast<int>(index.dim)), index.term}, 1, [](Builder&, Values v) { return v[0] == v[1]; });
    matches = matches == ir::kNone ? is_it : w.map({matches, is_it}, 1, [](Builder&, Values v) { return v[0] & v[1]; });
  }
  const ir::ValueId values = ops::as_value(arg::values(node));
  const auto count = static_cast<std::ptrdiff_t>(graph.value(values).tensor().sizes.size());
  const int source = w.load_along(values, {dims.end() - count, dims.end()});
  const DType dtype = self_type(graph, node)->dtype;
  put(w, node, with_sum(w, dtype, old_element(w, graph, node), matches, source));
}

// scatter: the space has the dimensions of self, and behind them the elements of the index along the dimension.
bool fits_scatter(const ir::Graph& graph, const ir::Node& node) {
  const auto scatter = find_scatter(graph, node);
  return scatter && (!scatter->adds || can_add(self_type(graph, node)->dtype)) && has_place_for_result(graph, node);
}
std::vector<Expr> scatter_space(const ir::Graph& graph, const ir::Node& node) {
  const Scatter scatter = *find_scatter(graph, node);
  std::vector<Expr> space = self_type(graph, node)->sizes;
  space.push_back(graph.value(scatter.index).tensor().sizes[scatter.dim]);
  return space;
}
std::vector<int> scatter_walk(const ir::Graph& graph, const ir::Node& node) {
  return counted(1, rank_of_self(graph, node));
}

// Whether the index has elements at a place of the other dimensions, in which it may be smaller than self; kNone: at
// all places.
int has_index(TermWriter& w, const ir::Graph& graph, const ir::Node& node, const Scatter& scatter) {
  const auto &self = self_type(graph, node)->sizes, &index = graph.value(scatter.index).tensor().sizes;
  int inside = ir::kNone;
  for (size_t d = 0; d < self.size(); ++d) {
    if (d == scatter.dim || self[d] == index[d]) continue;
    w.reads(index[d]);
    const int below = w.map({w.place(static_cast<int>(d))}, 1,
                            [size = index[d]](Builder& b, Values v) { return v[0] < b.index(size); });
    inside = inside == ir::kNone ? below : w.map({inside, below}, 1, [](Builder&, Values v) { return v[0] & v[1]; });
  }
  return inside;
}

// What the last element of the index that names a place writes there.
int last_written(TermWriter& w, const Scatter& scatter, int rank, DType dtype, int old, int matches) {
  if (scatter.number) {
    return w.map({w.reduce(Combine::kOr, matches), old}, 1, [dtype, number = *scatter.number](Builder& b, Values v) {
      return loop::select(v[0], emit_number(b, dtype, number), v[1]);
    });
  }
  const int candidate = w.map({matches, w.place(rank)}, 1, [](Builder& b, Values v) {
    return loop::select(v[0], v[1], b.constant(DType::kI64, -1));
  });
  const int last = w.reduce(Combine::kMax, candidate);
  const int found = w.map({last}, 1, [](Builder&, Values v) { return v[0] >= 0.0; });
  const int source = w.load_indexed(scatter.source, counted(static_cast<size_t>(rank)), {{scatter.dim, last}}, found);
  return w.map({found, source, old}, 1, [](Builder&, Values v) { return loop::select(v[0], v[1], v[2]); });
}

void write_scatter(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const Scatter scatter = *find_scatter(graph, node);
  const ir::TensorType& self = *self_type(graph, node);
  const auto rank = static_cast<int>(self.sizes.size());
  w.check({scatter.index, self.sizes[scatter.dim], false, out_of_bounds("", scatter.dim, self.sizes[scatter.dim])});
  std::vector<int> dims = counted(self.sizes.size());
  dims[scatter.dim] = rank;
  const int inside = has_index(w, graph, node, scatter);
  const int place = as_place(w, w.load_indexed(scatter.index, dims, {}, inside), std::nullopt);
  int matches =
      w.map({w.place(static_cast<int>(scatter.dim)), place}, 1, [](Builder&, Values v) { return v[0] == v[1]; });
  if (inside != ir::kNone) matches = w.map({matches, inside}, 1, [](Builder&, Values v) { return v[0] & v[1]; });
  const int old = old_element(w, graph, node);
  if (!scatter.adds) return put(w, node, last_written(w, scatter, rank, self.dtype, old, matches));
  put(w, node, with_sum(w, self.dtype, old, matches, w.load_indexed(scatter.source, dims, {}, inside)));
}

constexpr LoneRule kIndexSum = {fits_index_sum, write_index_sum, index_sum_space, index_sum_walk};
constexpr LoneRule kScatter = {fits_scatter, write_scatter, scatter_space, scatter_walk};
constexpr LoneRuleRow kLoneScatterRules[] = {
    {aten::index_put::kId, kIndexSum},     {aten::index_put_::kId, kIndexSum},  {aten::scatter_src::kId, kScatter},
    {aten::scatter_value::kId, kScatter},  {aten::scatter_add::kId, kScatter},  {aten::scatter__src::kId, kScatter},
    {aten::scatter__value::kId, kScatter}, {aten::scatter_add_::kId, kScatter},
};

}  // namespace

std::span<const LoneRuleRow> lone_scatter_rules() { return kLoneScatterRules; }

}  // namespace npugraph::lower
