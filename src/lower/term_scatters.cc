// SPDX-License-Identifier: Apache-2.0
// Elements that are written where an index says.
#include <optional>
#include <utility>
#include <vector>

#include "ir/alias.h"
#include "lower/generators.h"
#include "lower/term_rule.h"
#include "lower/terms.h"
#include "tensor/shape.h"

namespace npugraph::lower {

using loop::Builder;
using loop::Value;
using Values = TermValues;

namespace {

// (self, dim, index, source)
bool fits_index_copy(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = tensor_argument(graph, node, 0);
  const auto* index = tensor_argument(graph, node, 2);
  const auto* source = tensor_argument(graph, node, 3);
  if (self == nullptr || index == nullptr || source == nullptr || self->sizes.empty()) return false;
  const auto dim = dim_of(node.args[1], self->sizes.size());
  return dim && source->sizes.size() == self->sizes.size() && source->dtype == self->dtype &&
         !is_complex(self->dtype) && size_of(self->dtype) <= 8 && index->dtype == DType::kI64 &&
         index->sizes.size() == 1 && index->sizes[0] == source->sizes[*dim] &&
         ir::has_distinct_elements(*self, graph.symbols);
}
void write_index_copy(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const auto& self = graph.value(value_of(node, 0)).tensor().sizes;
  const size_t dim = *dim_of(node.args[1], self.size());
  const ir::ValueId index = value_of(node, 2);
  std::vector<Expr> others = self;
  others[dim] = 1;
  w.check({index, limit_where_read(self[dim], numel(others)), false,
           out_of_bounds("IndexError: index_copy_(): ", dim, self[dim])});
  const int place = as_place(w, w.load_along(index, {static_cast<int>(dim)}), std::nullopt);
  w.write_indexed(value_of(node, 0), w.load(value_of(node, 3)), dim, place);
}

// (self, dim, index, source or number): what order duplicates come in does not matter. Torch reads as much of the source as the
// index is large; here that is all of it, or along the dimension its first element.
struct Scatter {
  size_t dim = 0;
  bool adds = false;
  std::optional<Scalar> number;
};

bool has_sizes_of(const ir::TensorType& source, const ir::TensorType& index, size_t but_dim) {
  if (source.sizes.size() != index.sizes.size()) return false;
  for (size_t d = 0; d < source.sizes.size(); ++d) {
    if (d != but_dim && !(source.sizes[d] == index.sizes[d])) return false;
  }
  return true;
}

bool is_add(const ir::Node& node) {
  return node.op->name == "aten.scatter_add" || node.op->name == "aten.scatter_add_";
}

std::optional<Scatter> find_scatter(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = tensor_argument(graph, node, 0);
  const auto* index = tensor_argument(graph, node, 2);
  const auto* source = tensor_argument(graph, node, 3);
  if (self == nullptr || index == nullptr || self->sizes.empty() || index->sizes.size() != self->sizes.size() ||
      index->dtype != DType::kI64 || is_complex(self->dtype) || size_of(self->dtype) > 8)
    return std::nullopt;
  const auto dim = dim_of(node.args[1], self->sizes.size());
  if (!dim) return std::nullopt;
  Scatter found{.dim = *dim, .adds = is_add(node), .number = constant_argument(node, 3)};
  const bool fits_source = source != nullptr ? source->dtype == self->dtype && has_sizes_of(*source, *index, *dim)
                                             : found.number && can_hold(self->dtype, *found.number);
  const bool fits_sum =
      !found.adds || is_float_tensor(self) || self->dtype == DType::kI64 || self->dtype == DType::kI32;
  return fits_source && fits_sum ? std::optional(found) : std::nullopt;
}

// One element of each row along the dimension, so that comparing places with it is all.
bool fits_scatter(const ir::Graph& graph, const ir::Node& node) {
  const auto scatter = find_scatter(graph, node);
  if (!scatter || tensor_type(graph, node.results.front()) == nullptr) return false;
  const auto& self = tensor_argument(graph, node, 0)->sizes;
  const auto& index = tensor_argument(graph, node, 2)->sizes;
  for (size_t d = 0; d < self.size(); ++d) {
    if (!(d == scatter->dim ? index[d].is_int(1) : index[d] == self[d])) return false;
  }
  return true;
}

// What an element becomes: a term that reads `old` and `source`, each where it is needed.
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
  const Expr size = tensor_argument(graph, node, 0)->sizes[dim];
  const ir::ValueId index = value_of(node, 2);
  w.check({index, size, false, out_of_bounds("", dim, size)});
  return as_place(w, w.load(index), std::nullopt);
}

void write_scatter(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const Scatter scatter = *find_scatter(graph, node);
  const auto& type = *tensor_argument(graph, node, 0);
  const int place = checked_place(w, graph, node, scatter.dim);
  const int old = w.load(value_of(node, 0));
  const int changed = new_element(
      w, type.dtype, scatter, [&] { return old; },
      [&] {
        std::vector<int> dims(type.sizes.size());
        for (size_t d = 0; d < dims.size(); ++d) dims[d] = d == scatter.dim ? ir::kNone : static_cast<int>(d);
        return w.load_along(value_of(node, 3), std::move(dims));
      });
  w.result(node.results[0], w.map({w.place(static_cast<int>(scatter.dim)), place, changed, old}, 2,
                                  [](Builder&, Values v) { return loop::select(v[0] == v[1], v[2], v[3]); }));
}

// Duplicates, if there may be any, write the same number.
bool fits_scatter_write(const ir::Graph& graph, const ir::Node& node) {
  const auto scatter = find_scatter(graph, node);
  if (!scatter) return false;
  const auto is_single = [&](size_t arg) { return tensor_argument(graph, node, arg)->sizes[scatter->dim].is_int(1); };
  return (scatter->number || (is_single(2) && is_single(3))) &&
         ir::has_distinct_elements(*tensor_argument(graph, node, 0), graph.symbols);
}
void write_scatter_write(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const Scatter scatter = *find_scatter(graph, node);
  const auto& type = *tensor_argument(graph, node, 0);
  const int place = checked_place(w, graph, node, scatter.dim);
  const int changed = new_element(
      w, type.dtype, scatter,
      [&] {
        std::vector<int> dims(type.sizes.size());
        for (size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int>(d);
        return w.load_indexed(value_of(node, 0), std::move(dims), {{scatter.dim, place}});
      },
      [&] { return w.load(value_of(node, 3)); });
  w.write_indexed(value_of(node, 0), changed, scatter.dim, place);
}

constexpr Rule kByPlace = {fits_scatter, write_scatter, TermKind::kGather};
constexpr Rule kInto = {fits_scatter_write, write_scatter_write, TermKind::kScatter, 2};
constexpr NamedRule kRules[] = {
    {"aten.index_copy_", {fits_index_copy, write_index_copy, TermKind::kScatter, 3}},
    {"aten.scatter.src", kByPlace},
    {"aten.scatter.value", kByPlace},
    {"aten.scatter_add", kByPlace},
    {"aten.scatter_.src", kInto},
    {"aten.scatter_.value", kInto},
    {"aten.scatter_add_", kInto},
};

}  // namespace

std::span<const NamedRule> scatter_rules() { return kRules; }

ir::ValueId index_operand(const ir::Node& node) { return value_of(node, 2); }

}  // namespace npugraph::lower
