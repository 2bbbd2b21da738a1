// SPDX-License-Identifier: Apache-2.0
// Operators that read at shifted or scaled places: pools, padding, reversal.
#include <algorithm>
#include <array>
#include <cmath>

#include "lower/terms/rule.h"

namespace npugraph::lower {

using loop::Builder;
using loop::Value;
using Step = TermWriter::Step;

namespace {

// Most elements of a window: code is written for each of them.
constexpr int64_t kLargestWindow = 64;

std::optional<std::vector<int64_t>> integers(const std::vector<Expr>* list) {
  if (list == nullptr) return std::nullopt;
  std::vector<int64_t> out;
  for (const Expr& e : *list) {
    const auto value = e.as_int();
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

// Whether an argument, which the operator may lack, is true.
bool is_set(const Attr* argument) {
  const auto value = argument == nullptr ? std::nullopt : ops::as_constant(*argument);
  return value && value->as_bool();
}

// Place o of the result sees the elements o * stride - padding + k * dilation, k in [0, size).
struct SlidingWindow {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
};
using SlidingWindows = std::array<SlidingWindow, 2>;

std::optional<SlidingWindows> find_windows(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  const auto* result = tensor_type(graph, node.results[0]);
  if (!is_float_tensor(self) || result == nullptr || self->sizes.size() < 3) return std::nullopt;
  SlidingWindows windows;
  if (aten::_adaptive_avg_pool2d::is(node)) {
    for (size_t d = 0; d < 2; ++d) {
      const auto in = self->sizes[self->sizes.size() - 2 + d].as_int();
      const auto out = result->sizes[result->sizes.size() - 2 + d].as_int();
      if (!in || !out || *out < 1 || *in % *out != 0) return std::nullopt;
      windows[d] = {.size = *in / *out, .stride = *in / *out};
    }
  } else {
    const auto size = integers(ops::as_numbers(arg::kernel_size(node)));
    const auto padding = integers(ops::as_numbers(arg::padding(node)));
    auto stride = integers(ops::as_numbers(arg::stride(node)));
    const Attr* dilations = arg::dilation.find(node);
    const auto dilation = dilations != nullptr ? integers(ops::as_numbers(*dilations)) : std::vector<int64_t>{1};
    if (!size || !padding || !stride || !dilation) return std::nullopt;
    if (stride->empty()) stride = size;
    const auto at = [](const std::vector<int64_t>& list, size_t d) { return list.size() > 1 ? list[d] : list[0]; };
    for (size_t d = 0; d < 2; ++d) windows[d] = {at(*size, d), at(*stride, d), at(*padding, d), at(*dilation, d)};
  }
  const auto is_small = [](const SlidingWindow& w) { return w.size > 0 && w.size <= kLargestWindow; };
  const bool fits = is_small(windows[0]) && is_small(windows[1]) && windows[0].size * windows[1].size <= kLargestWindow;
  return fits ? std::optional(windows) : std::nullopt;
}

// The term that says, for each place of dimension `dim`, whether element k of the window lies in the operand; kNone if
// it always does.
int element_exists(TermWriter& w, int dim, const SlidingWindow& window, int64_t k, const Expr& in, const Expr& out) {
  const int64_t shift = k * window.dilation - window.padding;
  const Expr largest = (out - 1) * window.stride + shift;
  const bool below = shift < 0;
  const auto known_in = in.as_int(), known = largest.as_int();
  const bool above = !(known_in && known && *known < *known_in);
  if (!below && !above) return ir::kNone;
  w.reads(in);
  return w.map({w.place(dim)}, 2, [=, stride = window.stride](Builder& b, Values v) {
    const Value at = v[0] * static_cast<double>(stride) + static_cast<double>(shift);
    if (!above) return at >= 0.0;
    return below ? (at >= 0.0) & (at < b.index(in)) : at < b.index(in);
  });
}

int both(TermWriter& w, int a, int b) {
  if (a == ir::kNone || b == ir::kNone) return a == ir::kNone ? b : a;
  return w.map({a, b}, 1, [](Builder&, Values v) { return v[0] & v[1]; });
}

// The terms of all elements of a window, in the type in which floats are computed.
std::vector<int> window_elements(TermWriter& w, const ir::Graph& graph, const ir::Node& node, double outside) {
  const SlidingWindows windows = *find_windows(graph, node);
  const ir::TensorType& self = *self_type(graph, node);
  const ir::TensorType& result = graph.value(node.results[0]).tensor();
  const size_t rank = self.sizes.size();
  const DType dtype = compute_type(self.dtype);
  std::array<std::vector<int>, 2> exists;
  for (size_t d = 0; d < 2; ++d) {
    const size_t dim = rank - 2 + d;
    for (int64_t k = 0; k < windows[d].size; ++k)
      exists[d].push_back(element_exists(w, static_cast<int>(dim), windows[d], k, self.sizes[dim], result.sizes[dim]));
  }
  const auto step = [](const SlidingWindow& window, int64_t k) {
    return Step{window.stride, k * window.dilation - window.padding};
  };
  std::vector<int> elements;
  for (int64_t i = 0; i < windows[0].size; ++i) {
    for (int64_t j = 0; j < windows[1].size; ++j) {
      std::vector<Step> steps(rank);
      steps[rank - 2] = step(windows[0], i);
      steps[rank - 1] = step(windows[1], j);
      const int inside = both(w, exists[0][static_cast<size_t>(i)], exists[1][static_cast<size_t>(j)]);
      const int x = w.load_stepped(self_of(node), steps, inside, outside);
      elements.push_back(w.map({x}, 0, [dtype](Builder&, Values v) { return loop::cast(v[0], dtype); }));
    }
  }
  return elements;
}

bool fits_max_pool(const ir::Graph& graph, const ir::Node& node) { return find_windows(graph, node).has_value(); }
// The place of the first of the largest elements, or of the last NaN; if all are -inf, of the first element
// inside the operand.
Value place_of_largest(Builder& b, Values elements, Value row, Value column, const SlidingWindows& windows,
                       const Expr& width) {
  const auto at = [](Value place, const SlidingWindow& w, int64_t k) {
    return place * static_cast<double>(w.stride) + static_cast<double>(k * w.dilation - w.padding);
  };
  const auto first = [&](Value place, const SlidingWindow& w) {
    Value out = at(place, w, w.size - 1);
    for (int64_t k = w.size - 1; k-- > 0;) out = loop::select(at(place, w, k) >= 0.0, at(place, w, k), out);
    return out;
  };
  Value place = first(row, windows[0]) * b.index(width) + first(column, windows[1]);
  Value largest = b.constant(elements[0].dtype(), -INFINITY);
  for (int64_t i = 0; i < windows[0].size; ++i) {
    for (int64_t j = 0; j < windows[1].size; ++j) {
      const Value x = elements[static_cast<size_t>(i * windows[1].size + j)];
      const Value is_it = (x > largest) | loop::unary(loop::Op::kIsNan, x);
      place = loop::select(is_it, at(row, windows[0], i) * b.index(width) + at(column, windows[1], j), place);
      largest = loop::select(is_it, x, largest);
    }
  }
  return place;
}
void write_max_pool(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  std::vector<int> elements = window_elements(w, graph, node, -INFINITY);
  const int cost = static_cast<int>(elements.size());
  w.result(node.results[0], w.map(elements, cost, [](Builder&, Values v) {
    Value out = v[0];
    for (size_t k = 1; k < v.size(); ++k) out = loop::max(out, v[k]);
    return out;
  }));
  if (node.results[1] == ir::kNone) return;
  const SlidingWindows windows = *find_windows(graph, node);
  const auto& sizes = self_type(graph, node)->sizes;
  w.reads(sizes.back());
  elements.push_back(w.place(static_cast<int>(sizes.size()) - 2));
  elements.push_back(w.place(static_cast<int>(sizes.size()) - 1));
  w.result(node.results[1], w.map(std::move(elements), 4 * cost, [=, width = sizes.back()](Builder& b, Values v) {
    const size_t count = v.size() - 2;
    return place_of_largest(b, v.first(count), v[count], v[count + 1], windows, width);
  }));
}

bool fits_average_pool(const ir::Graph& graph, const ir::Node& node) {
  const Attr* divisor = arg::divisor_override.find(node);
  const bool has_divisor = divisor != nullptr && !std::holds_alternative<None>(*divisor);
  return !has_divisor && !is_set(arg::ceil_mode.find(node)) && find_windows(graph, node).has_value();
}
// How many elements of the window at each place of dimension `dim` lie in the operand.
int count_inside(TermWriter& w, int dim, const SlidingWindow& window, const Expr& in, DType dtype) {
  w.reads(in);
  return w.map({w.place(dim)}, 4, [=](Builder& b, Values v) {
    const Value first = v[0] * static_cast<double>(window.stride) - static_cast<double>(window.padding);
    const Value end = loop::min(first + static_cast<double>(window.size), b.index(in));
    return loop::cast(end - loop::max(first, b.constant(DType::kI64, 0)), dtype);
  });
}
void write_average_pool(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const SlidingWindows windows = *find_windows(graph, node);
  const ir::TensorType& self = *self_type(graph, node);
  const size_t rank = self.sizes.size();
  std::vector<int> elements = window_elements(w, graph, node, 0);
  const int cost = static_cast<int>(elements.size());
  const int sum = w.map(std::move(elements), cost, [](Builder&, Values v) {
    Value out = v[0];
    for (size_t k = 1; k < v.size(); ++k) out = out + v[k];
    return out;
  });
  const bool counts_all = arg::count_include_pad.find(node) == nullptr || is_set(arg::count_include_pad.find(node)) ||
                          (windows[0].padding == 0 && windows[1].padding == 0);
  if (counts_all) {
    const auto area = static_cast<double>(windows[0].size * windows[1].size);
    return w.result(node.results[0], w.map({sum}, 4, [area](Builder&, Values v) { return v[0] / area; }));
  }
  const DType dtype = compute_type(self.dtype);
  const int rows = count_inside(w, static_cast<int>(rank) - 2, windows[0], self.sizes[rank - 2], dtype);
  const int columns = count_inside(w, static_cast<int>(rank) - 1, windows[1], self.sizes[rank - 1], dtype);
  const int count = w.map({rows, columns}, 1, mul);
  w.result(node.results[0], w.map({sum, count}, 4, div));
}

bool is_movable(const ir::TensorType* type) {
  return type != nullptr && !type->sizes.empty() && is_real_element(type->dtype);
}

// (self, pad, value): pairs, from the last dimension backwards.
bool fits_pad(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  const auto pad = integers(aten::constant_pad_nd::pad(node));
  return is_movable(self) && pad && pad->size() <= 2 * self->sizes.size() &&
         aten::constant_pad_nd::value.as_constant(node) && tensor_type(graph, node.results[0]) != nullptr;
}
void write_pad(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const ir::TensorType& self = *self_type(graph, node);
  const ir::TensorType& result = graph.value(node.results[0]).tensor();
  const std::vector<int64_t> pad = *integers(aten::constant_pad_nd::pad(node));
  std::vector<Step> steps(self.sizes.size());
  int inside = ir::kNone;
  for (size_t k = 0; 2 * k < pad.size(); ++k) {
    const size_t d = self.sizes.size() - 1 - k;
    steps[d].shift = -pad[2 * k];
    const SlidingWindow window = {.padding = pad[2 * k]};
    inside = both(w, inside, element_exists(w, static_cast<int>(d), window, 0, self.sizes[d], result.sizes[d]));
  }
  const double value = aten::constant_pad_nd::value.as_constant(node)->as_float();
  w.result(node.results[0], w.load_stepped(self_of(node), steps, inside, value));
}

// (self, dims)
bool fits_flip(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  const auto dims = integers(aten::flip::dims(node));
  if (!is_movable(self) || !dims || tensor_type(graph, node.results[0]) == nullptr) return false;
  return std::all_of(dims->begin(), dims->end(), [&](int64_t d) {
    return self->sizes[static_cast<size_t>(*known_dim(Expr(d), self->sizes.size()))].as_int().has_value();
  });
}
void write_flip(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const auto& sizes = self_type(graph, node)->sizes;
  std::vector<Step> steps(sizes.size());
  const std::vector<int64_t> dims = *integers(aten::flip::dims(node));
  for (const int64_t dim : dims) {
    const auto d = static_cast<size_t>(*known_dim(Expr(dim), sizes.size()));
    steps[d] = {-1, *sizes[d].as_int() - 1};
  }
  w.result(node.results[0], w.load_stepped(self_of(node), steps, ir::kNone, 0));
}

constexpr RuleRow kWindowRules[] = {
    {aten::max_pool2d_with_indices::kId, {fits_max_pool, write_max_pool, TermKind::kWindow}},
    {aten::avg_pool2d::kId, {fits_average_pool, write_average_pool, TermKind::kWindow}},
    {aten::_adaptive_avg_pool2d::kId, {fits_average_pool, write_average_pool, TermKind::kWindow}},
    {aten::constant_pad_nd::kId, {fits_pad, write_pad, TermKind::kWindow}},
    {aten::flip::kId, {fits_flip, write_flip, TermKind::kWindow}},
};

}  // namespace

std::span<const RuleRow> window_rules() { return kWindowRules; }

}  // namespace npugraph::lower
