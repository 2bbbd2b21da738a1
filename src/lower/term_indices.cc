// SPDX-License-Identifier: Apache-2.0
// Concatenations, gathers and scatters.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ir/alias.h"
#include "lower/term_rule.h"
#include "lower/term_rules.h"
#include "tensor/shape.h"

namespace npugraph::lower {

using loop::Builder;
using loop::Value;
using Values = TermValues;

namespace {

std::optional<size_t> dim_of(const Attr& attr, size_t rank) {
  const auto* e = std::get_if<Expr>(&attr);
  const auto dim = e == nullptr ? std::nullopt : known_dim(*e, rank);
  return dim ? std::optional(static_cast<size_t>(*dim)) : std::nullopt;
}

// (tensors, dim): along the rows, of one type and rank.
constexpr size_t kMostParts = 4;
bool fits_cat(const ir::Graph& graph, const ir::Node& node) {
  const auto* parts = std::get_if<std::vector<TensorRef>>(&node.args[0]);
  const auto* result = tensor_type(graph, node.results.front());
  if (parts == nullptr || result == nullptr || parts->size() > kMostParts || size_of(result->dtype) > 8) return false;
  return !is_complex(result->dtype) && !result->sizes.empty() &&
         dim_of(node.args[1], result->sizes.size()) == result->sizes.size() - 1 &&
         std::all_of(parts->begin(), parts->end(), [&](const TensorRef& part) {
           const auto* type = tensor_type(graph, part.id);
           return type != nullptr && type->dtype == result->dtype && type->sizes.size() == result->sizes.size();
         });
}
void write_cat(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const auto& parts = std::get<std::vector<TensorRef>>(node.args[0]);
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

// Elements of a dimension by index. `place`: where the index tensor stands among the dimensions of the result.
struct Gather {
  ir::ValueId self = ir::kNone;
  ir::ValueId index = ir::kNone;
  size_t dim = 0;
  bool elementwise = false;  // the index has an element for each of the result
  bool from_end = false;
  std::string message;
};

std::string out_of_bounds(std::string_view begin, size_t dim, const Expr& size) {
  return cat(begin, "index % is out of bounds for dimension ", dim, " with size ", size.str());
}

// The only index tensor of aten.index.Tensor, and its dimension.
std::optional<std::pair<ir::ValueId, size_t>> only_index(const Attr& attr) {
  std::optional<std::pair<ir::ValueId, size_t>> found;
  const auto* list = std::get_if<std::vector<TensorRef>>(&attr);
  if (list == nullptr) return std::nullopt;
  for (size_t d = 0; d < list->size(); ++d) {
    if ((*list)[d].id == TensorRef::kAbsent) continue;
    if (found) return std::nullopt;
    found.emplace((*list)[d].id, d);
  }
  return found;
}

std::optional<Gather> find_gather(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = tensor_argument(graph, node, 0);
  if (self == nullptr || self->sizes.empty() || is_complex(self->dtype) || size_of(self->dtype) > 8 ||
      tensor_type(graph, node.results.front()) == nullptr)
    return std::nullopt;
  Gather found{.self = value_of(node, 0)};
  const std::string& name = node.op->name;
  // Torch has other words for what is not a contiguous matrix.
  const bool is_table = self->sizes.size() == 2 && is_contiguous(self->sizes, self->strides);
  if (name == "aten.embedding" && is_table) {
    found.index = value_of(node, 1);
    found.message = "IndexError: index out of range in self";
  } else if (name == "aten.index_select" && is_table && is_float_tensor(self)) {
    if (dim_of(node.args[1], self->sizes.size()) != 0) return std::nullopt;
    found.index = value_of(node, 2);
    found.message = "IndexError: index out of range in self";
  } else if (name == "aten.gather") {
    const auto dim = dim_of(node.args[1], self->sizes.size());
    if (!dim || !self->sizes[*dim].is_constant()) return std::nullopt;
    found.index = value_of(node, 2);
    found.dim = *dim;
    found.elementwise = true;
    found.message = out_of_bounds("", *dim, self->sizes[*dim]);
  } else if (const auto index = name == "aten.index.Tensor" ? only_index(node.args[1]) : std::nullopt) {
    if (!self->sizes[index->second].is_constant()) return std::nullopt;
    found.index = index->first;
    found.dim = index->second;
    found.from_end = true;
    found.message = out_of_bounds("IndexError: ", found.dim, self->sizes[found.dim]);
  } else {
    return std::nullopt;
  }
  const auto* index = tensor_type(graph, found.index);
  const bool is_index = index != nullptr && (index->dtype == DType::kI64 || index->dtype == DType::kI32);
  return is_index && !index->sizes.empty() ? std::optional(found) : std::nullopt;
}
bool fits_gather(const ir::Graph& graph, const ir::Node& node) { return find_gather(graph, node).has_value(); }

int as_place(TermWriter& w, int index, const std::optional<Expr>& from_end) {
  if (from_end) w.reads(*from_end);
  return w.map({index}, 1, [from_end](Builder& b, Values v) {
    const Value place = loop::cast(v[0], DType::kI64);
    return from_end ? loop::select(place < 0.0, place + b.index(*from_end), place) : place;
  });
}

std::vector<int> counted(size_t count, int first = 0) {
  std::vector<int> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = first + static_cast<int>(i);
  return out;
}

void write_gather(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const Gather gather = *find_gather(graph, node);
  const auto& self = graph.value(gather.self).tensor().sizes;
  const size_t index_rank = graph.value(gather.index).tensor().sizes.size();
  w.check({gather.index, self[gather.dim], gather.from_end, gather.message});
  std::vector<int> dims = counted(self.size());
  std::vector<int> index_dims = counted(index_rank, gather.elementwise ? 0 : static_cast<int>(gather.dim));
  for (size_t d = gather.dim + 1; !gather.elementwise && d < dims.size(); ++d) {
    dims[d] += static_cast<int>(index_rank) - 1;
  }
  const int index = as_place(w, w.load_along(gather.index, std::move(index_dims)),
                             gather.from_end ? std::optional(self[gather.dim]) : std::nullopt);
  w.result(node.results[0], w.load_indexed(gather.self, std::move(dims), gather.dim, index));
}

// (self, dim, index, source)
bool fits_index_copy(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = tensor_argument(graph, node, 0);
  const auto* index = tensor_argument(graph, node, 2);
  const auto* source = tensor_argument(graph, node, 3);
  if (self == nullptr || index == nullptr || source == nullptr || self->sizes.empty()) return false;
  const auto dim = dim_of(node.args[1], self->sizes.size());
  return dim && self->sizes[*dim].is_constant() && source->sizes.size() == self->sizes.size() &&
         source->dtype == self->dtype && !is_complex(self->dtype) && size_of(self->dtype) <= 8 &&
         index->dtype == DType::kI64 && index->sizes.size() == 1 && index->sizes[0] == source->sizes[*dim] &&
         ir::has_distinct_elements(*self, graph.symbols);
}
void write_index_copy(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const auto& self = graph.value(value_of(node, 0)).tensor().sizes;
  const size_t dim = *dim_of(node.args[1], self.size());
  const ir::ValueId index = value_of(node, 2);
  w.check({index, self[dim], false, out_of_bounds("IndexError: index_copy_(): ", dim, self[dim])});
  const int place = as_place(w, w.load_along(index, {static_cast<int>(dim)}), std::nullopt);
  w.write_indexed(value_of(node, 0), w.load(value_of(node, 3)), dim, place);
}

constexpr TermKind kGather = TermKind::kGather;
constexpr NamedRule kRules[] = {
    {"aten.cat", {fits_cat, write_cat, TermKind::kConcatenation}},
    {"aten.embedding", {fits_gather, write_gather, kGather}},
    {"aten.index_select", {fits_gather, write_gather, kGather}},
    {"aten.gather", {fits_gather, write_gather, kGather}},
    {"aten.index.Tensor", {fits_gather, write_gather, kGather}},
    {"aten.index_copy_", {fits_index_copy, write_index_copy, TermKind::kScatter, 3}},
};

}  // namespace

std::span<const NamedRule> index_rules() { return kRules; }

ir::ValueId index_operand(const ir::Node& node) {
  if (node.op->name == "aten.index.Tensor") return only_index(node.args[1])->first;
  return value_of(node, node.op->name == "aten.embedding" ? 1 : 2);
}

}  // namespace npugraph::lower
