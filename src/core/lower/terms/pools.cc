// SPDX-License-Identifier: Apache-2.0
// Averages over windows of any sizes, as loops over the elements of each window.
#include <array>
#include <optional>
#include <utility>

#include "lower/terms/rule.h"

namespace npugraph::lower {

using loop::Builder;
using loop::Combine;
using loop::Op;
using loop::Value;

namespace {

// The windows along one dimension of an image.
struct Windows {
  Expr in, out;  // sizes of the operand and of the result
  Expr longest;  // at least as many elements of the operand and of the padding before it as any window has
  // Place o sees `size` elements from o * stride - padding on. Without a stride, the operand is divided evenly: from
  // o * in / out, rounded down, to (o + 1) * in / out, rounded up.
  std::optional<int64_t> stride;
  int64_t padding = 0, size = 0;
};
using Image = std::array<Windows, 2>;

std::optional<int64_t> number_at(const Attr& attr, size_t d) {
  const auto* list = ops::as_numbers(attr);
  if (list == nullptr || list->empty()) return std::nullopt;
  return (*list)[list->size() > 1 ? d : 0].as_int();
}

std::optional<Windows> stepped(const ir::Node& node, size_t d, Expr in, Expr out) {
  const auto* strides = ops::as_numbers(arg::stride(node));
  const bool has_stride = strides != nullptr && !strides->empty();
  const auto size = number_at(arg::kernel_size(node), d), padding = number_at(arg::padding(node), d);
  const auto stride = has_stride ? number_at(arg::stride(node), d) : size;
  if (!size || !padding || !stride) return std::nullopt;
  const Expr seen = Expr::make(ExprOp::kMin, {Expr(*size), in + *padding});
  return Windows{std::move(in), std::move(out), seen, *stride, *padding, *size};
}

Windows divided(const Expr& in, const Expr& out) {
  return {in, out, Expr::make(ExprOp::kCeilDiv, {in, Expr::make(ExprOp::kMax, {out, Expr(1)})}) + 1, std::nullopt};
}

std::optional<Image> find_image(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  const auto* result = tensor_type(graph, node.results.front());
  if (!is_float_tensor(self) || result == nullptr || self->sizes.size() < 3) return std::nullopt;
  const bool is_even = aten::_adaptive_avg_pool2d::is(node);
  const Attr* divisor = arg::divisor_override.find(node);
  const bool has_divisor = divisor != nullptr && !std::holds_alternative<None>(*divisor);
  if (has_divisor && !ops::as_constant(*divisor)) return std::nullopt;
  Image image;
  for (size_t d = 0; d < 2; ++d) {
    const size_t dim = self->sizes.size() - 2 + d;
    const Expr &in = self->sizes[dim], &out = result->sizes[dim];
    const auto windows = is_even ? divided(in, out) : stepped(node, d, in, out);
    if (!windows) return std::nullopt;
    image[d] = *windows;
  }
  return image;
}
bool fits_average(const ir::Graph& graph, const ir::Node& node) { return find_image(graph, node).has_value(); }

std::vector<Expr> average_space(const ir::Graph& graph, const ir::Node& node) {
  const Image image = *find_image(graph, node);
  std::vector<Expr> space = graph.value(node.results.front()).tensor().sizes;
  for (const Windows& windows : image) space.push_back(windows.longest);
  return space;
}
std::vector<int> average_walk(const ir::Graph& graph, const ir::Node& node) {
  return counted(2, graph.value(node.results.front()).tensor().sizes.size());
}

// Terms of the first element of the window at each place of a dimension, and of what is behind its last one. Both may
// lie in the padding.
struct Bounds {
  int begin = 0, end = 0;
};
Bounds bounds_of(TermWriter& w, const Windows& windows, int dim) {
  const int place = w.place(dim);
  w.reads(windows.in);
  w.reads(windows.out);
  if (windows.stride) {
    const auto stride = static_cast<double>(*windows.stride), padding = static_cast<double>(windows.padding);
    const int begin = w.map({place}, 2, [=](Builder&, Values v) { return v[0] * stride - padding; });
    const auto size = static_cast<double>(windows.size);
    const int end = w.map({begin}, 2, [=, in = windows.in](Builder& b, Values v) {
      return loop::min(v[0] + size, b.index(in) + padding);
    });
    return {begin, end};
  }
  const auto share = [in = windows.in, out = windows.out](Builder& b, Value count, double more) {
    return loop::binary(Op::kFloorDiv, count * b.index(in) + b.index(out) * more - more, b.index(out));
  };
  return {w.map({place}, 8, [share](Builder& b, Values v) { return share(b, v[0], 0); }),
          w.map({place}, 8, [share](Builder& b, Values v) { return share(b, v[0] + 1.0, 1); })};
}

bool is_false(const Attr* argument) {
  const auto value = argument == nullptr ? std::nullopt : ops::as_constant(*argument);
  return value && !value->as_bool();
}

// How many elements each window counts along a dimension.
int count_of(TermWriter& w, const Windows& windows, const Bounds& bounds, bool counts_padding) {
  return w.map({bounds.begin, bounds.end}, 3, [counts_padding, in = windows.in](Builder& b, Values v) {
    if (counts_padding) return v[1] - v[0];
    return loop::min(v[1], b.index(in)) - loop::max(v[0], b.constant(DType::kI64, 0));
  });
}

void write_average(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const Image image = *find_image(graph, node);
  const auto& type = *self_type(graph, node);
  const int rank = static_cast<int>(type.sizes.size());
  const DType dtype = compute_type(type.dtype);
  const bool counts_padding = !is_false(arg::count_include_pad.find(node));
  std::vector<int> dims = counted(static_cast<size_t>(rank)), exists, counts;
  std::vector<TermAccess::Index> indices;
  for (int d = 0; d < 2; ++d) {
    const Windows& windows = image[static_cast<size_t>(d)];
    const int dim = rank - 2 + d;
    const Bounds bounds = bounds_of(w, windows, dim);
    const int at = w.map({bounds.begin, w.place(rank + d)}, 1, [](Builder&, Values v) { return v[0] + v[1]; });
    exists.push_back(w.map({at, bounds.end}, 4, [in = windows.in](Builder& b, Values v) {
      return (v[0] >= 0.0) & (v[0] < b.index(in)) & (v[0] < v[1]);
    }));
    indices.push_back({static_cast<size_t>(dim), at});
    counts.push_back(count_of(w, windows, bounds, counts_padding));
  }
  const int inside = w.map(exists, 1, [](Builder&, Values v) { return v[0] & v[1]; });
  const int x = w.map({w.load_indexed(self_of(node), dims, indices, inside)}, 0,
                      [dtype](Builder&, Values v) { return loop::cast(v[0], dtype); });
  const int sum = w.reduce(Combine::kSum, x);
  const Attr* argument = arg::divisor_override.find(node);
  const auto divisor = argument == nullptr ? std::nullopt : ops::as_constant(*argument);
  if (divisor) {
    return w.result_without_row(node.results.front(),
                                w.map({sum}, 4, [d = divisor->as_float()](Builder&, Values v) { return v[0] / d; }));
  }
  const int count = w.map(counts, 2, [dtype](Builder&, Values v) { return loop::cast(v[0] * v[1], dtype); });
  w.result_without_row(node.results.front(), w.map({sum, count}, 4, div));
}

constexpr LoneRule kAverage = {fits_average, write_average, average_space, average_walk};
constexpr LoneRuleRow kLonePoolRules[] = {
    {aten::avg_pool2d::kId, kAverage},
    {aten::_adaptive_avg_pool2d::kId, kAverage},
};

}  // namespace

std::span<const LoneRuleRow> lone_pool_rules() { return kLonePoolRules; }

}  // namespace npugraph::lower
