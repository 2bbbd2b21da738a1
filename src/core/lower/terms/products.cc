// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions of any real types as loops that multiply and add.
#include <algorithm>
#include <optional>
#include <utility>

#include "lower/generated/ramps.h"
#include "lower/terms/rule.h"

namespace npugraph::lower {

using loop::Builder;
using loop::Combine;
using loop::Op;
using loop::Value;

namespace {

const ir::TensorType& result_type(const ir::Graph& graph, const ir::Node& node) {
  return graph.value(node.results.front()).tensor();
}

// Whether all tensors have the type of the result, in which torch can add products.
bool has_one_type(const ir::Graph& graph, const ir::Node& node) {
  const auto* result = tensor_type(graph, node.results.front());
  if (result == nullptr || is_complex(result->dtype) || result->dtype == DType::kBool) return false;
  if (is_floating(result->dtype) && size_of(result->dtype) == 1) return false;
  const auto operands = ir::operands(node);
  return std::all_of(operands.begin(), operands.end(), [&](ir::ValueId id) {
    const auto* type = tensor_type(graph, id);
    return type != nullptr && type->dtype == result->dtype;
  });
}

// The type in which products are added.
DType sum_type(DType dtype) { return is_floating(dtype) ? compute_type(dtype) : dtype; }

int sum_of_products(TermWriter& w, DType dtype, int a, int b) {
  const int product =
      w.map({a, b}, 1, [dtype](Builder&, Values v) { return loop::cast(v[0], dtype) * loop::cast(v[1], dtype); });
  return w.reduce(Combine::kSum, product);
}

int scaled(TermWriter& w, DType dtype, int term, const Scalar& factor) {
  if (factor.as_float() == 1.0) return term;
  return w.map({term}, 1, [dtype, factor](Builder& b, Values v) { return v[0] * emit_number(b, dtype, factor); });
}

int sum(TermWriter& w, DType dtype, int a, int b) {
  return w.map({a, b}, 1, [dtype](Builder&, Values v) { return loop::cast(v[0], dtype) + loop::cast(v[1], dtype); });
}

// Matrix products: the space has the dimensions of the result, and behind them the one that is summed.
bool fits_matrices(const ir::Graph& graph, const ir::Node& node) {
  if (!has_one_type(graph, node)) return false;
  if (!aten::addmm::is(node)) return true;
  const DType dtype = sum_type(result_type(graph, node).dtype);
  const auto beta = aten::addmm::beta.as_constant(node), alpha = aten::addmm::alpha.as_constant(node);
  return beta && alpha && can_hold(dtype, *beta) && can_hold(dtype, *alpha);
}
std::vector<Expr> matrices_space(const ir::Graph& graph, const ir::Node& node) {
  std::vector<Expr> space = result_type(graph, node).sizes;
  space.push_back(graph.value(matrices_of(node).first).tensor().sizes.back());
  return space;
}
int summed_dim(const ir::Graph& graph, const ir::Node& node) {
  return static_cast<int>(result_type(graph, node).sizes.size());
}
std::vector<int> matrices_walk(const ir::Graph& graph, const ir::Node& node) { return {summed_dim(graph, node)}; }
// Along the columns of the second matrix, unless its rows are what is contiguous.
int matrices_lanes(const ir::Graph& graph, const ir::Node& node) {
  const ir::TensorType& b = graph.value(matrices_of(node).second).tensor();
  const int summed = summed_dim(graph, node);
  const bool has_fast_rows = b.strides[b.strides.size() - 2].is_int(1) && !b.strides.back().is_int(1);
  return has_fast_rows ? summed : summed - 1;
}
void write_matrices(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const int rank = summed_dim(graph, node);
  const DType dtype = sum_type(result_type(graph, node).dtype);
  std::vector<int> of_a = counted(static_cast<size_t>(rank)), of_b = of_a;
  of_a[static_cast<size_t>(rank) - 1] = rank;
  of_b[static_cast<size_t>(rank) - 2] = rank;
  const auto [a, b] = matrices_of(node);
  int total = sum_of_products(w, dtype, w.load_along(a, of_a), w.load_along(b, of_b));
  if (aten::addmm::is(node)) {
    const Scalar beta = *aten::addmm::beta.as_constant(node), alpha = *aten::addmm::alpha.as_constant(node);
    total = scaled(w, dtype, total, alpha);
    if (beta.as_float() != 0.0) {
      const ir::ValueId bias = aten::addmm::self(node);
      const size_t missing = static_cast<size_t>(rank) - graph.value(bias).tensor().sizes.size();
      const int summand = w.map({w.load_along(bias, counted(graph.value(bias).tensor().sizes.size(), missing))}, 0,
                                [dtype](Builder&, Values v) { return loop::cast(v[0], dtype); });
      total = sum(w, dtype, scaled(w, dtype, summand, beta), total);
    }
  }
  w.result_without_row(node.results.front(), total);
}

// A convolution, whose numbers are constant. The space has the dimensions of the result, and behind them the channels
// of a group of the input and the dimensions of the window.
struct ConvolutionWindow {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
  bool transposed = false;
  size_t images = 0;  // dimensions of an image
};

std::optional<std::vector<int64_t>> per_dimension(const std::vector<Expr>* list, size_t count) {
  if (list == nullptr || (list->size() != count && list->size() != 1)) return std::nullopt;
  std::vector<int64_t> numbers;
  for (size_t d = 0; d < count; ++d) {
    const auto number = (*list)[list->size() == 1 ? 0 : d].as_int();
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<ConvolutionWindow> find_window(const ir::Graph& graph, const ir::Node& node) {
  if (!has_one_type(graph, node)) return std::nullopt;
  const size_t images = graph.value(aten::convolution::weight(node)).tensor().sizes.size() - 2;
  const auto stride = per_dimension(aten::convolution::stride(node), images),
             padding = per_dimension(aten::convolution::padding(node), images),
             dilation = per_dimension(aten::convolution::dilation(node), images);
  const auto transposed = aten::convolution::transposed.as_constant(node);
  const auto groups = aten::convolution::groups.as_int(node);
  if (!stride || !padding || !dilation || !transposed || !groups || *groups < 1) return std::nullopt;
  return ConvolutionWindow{*stride, *padding, *dilation, *groups, transposed->as_bool(), images};
}
bool fits_convolution(const ir::Graph& graph, const ir::Node& node) { return find_window(graph, node).has_value(); }

Expr channels_of_group(const ir::Graph& graph, const ir::Node& node, const ConvolutionWindow& window) {
  const Expr channels = graph.value(aten::convolution::input(node)).tensor().sizes[1];
  return Expr::make(ExprOp::kFloorDiv, {channels, Expr(window.groups)});
}
std::vector<Expr> convolution_space(const ir::Graph& graph, const ir::Node& node) {
  const auto& weight = graph.value(aten::convolution::weight(node)).tensor().sizes;
  std::vector<Expr> space = result_type(graph, node).sizes;
  space.push_back(channels_of_group(graph, node, *find_window(graph, node)));
  space.insert(space.end(), weight.begin() + 2, weight.end());
  return space;
}
std::vector<int> convolution_walk(const ir::Graph& graph, const ir::Node& node) {
  const size_t rank = result_type(graph, node).sizes.size();
  return counted(rank - 1, rank);
}

// The place along dimension `d` of the image that an element of the window reads, and whether it reads one.
struct Read {
  int place = 0;
  int exists = 0;
};
Read image_place(TermWriter& w, const ConvolutionWindow& window, size_t d, const Expr& size) {
  const auto stride = static_cast<double>(window.stride[d]), padding = static_cast<double>(window.padding[d]),
             dilation = static_cast<double>(window.dilation[d]);
  const int out = w.place(static_cast<int>(2 + d)), tap = w.place(static_cast<int>(3 + window.images + d));
  w.reads(size);
  if (!window.transposed) {
    const int place =
        w.map({out, tap}, 3, [=](Builder&, Values v) { return v[0] * stride + v[1] * dilation - padding; });
    return {place, w.map({place}, 2, [size](Builder& b, Values v) { return (v[0] >= 0.0) & (v[0] < b.index(size)); })};
  }
  const int from = w.map({out, tap}, 3, [=](Builder&, Values v) { return v[0] + padding - v[1] * dilation; });
  const auto divided = [stride](Builder& b, Op op, Value x) {
    return loop::binary(op, x, b.constant(DType::kI64, stride));
  };
  const int place = w.map({from}, 4, [=](Builder& b, Values v) { return divided(b, Op::kFloorDiv, v[0]); });
  const int exists = w.map({from, place}, 6, [=](Builder& b, Values v) {
    return (divided(b, Op::kFloorMod, v[0]) == 0.0) & (v[1] >= 0.0) & (v[1] < b.index(size));
  });
  return {place, exists};
}

// The group of a channel of the result, times the channels `of_group` that each group has elsewhere.
int first_of_group(TermWriter& w, const Expr& result_channels, int64_t groups, const Expr& of_group) {
  const Expr in_group = Expr::make(ExprOp::kFloorDiv, {result_channels, Expr(groups)});
  w.reads(in_group);
  w.reads(of_group);
  return w.map({w.place(1)}, 4, [=](Builder& b, Values v) {
    return loop::binary(Op::kFloorDiv, v[0], b.index(in_group)) * b.index(of_group);
  });
}

void write_convolution(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const ConvolutionWindow window = *find_window(graph, node);
  const auto& result = result_type(graph, node);
  const auto& image = graph.value(aten::convolution::input(node)).tensor().sizes;
  const int rank = static_cast<int>(result.sizes.size());
  const DType dtype = sum_type(result.dtype);
  const Expr of_group = channels_of_group(graph, node, window);
  const auto added = [](Builder&, Values v) { return v[0] + v[1]; };

  std::vector<int> of_image = {0, rank}, of_weight = {1, rank};
  std::vector<TermAccess::Index> in_image, in_weight;
  if (window.transposed) of_weight = {rank, 1};
  if (window.groups != 1) {
    const int channel = w.map({first_of_group(w, result.sizes[1], window.groups, of_group), w.place(rank)}, 1, added);
    in_image.push_back({1, channel});
    if (window.transposed) {
      const Expr results = Expr::make(ExprOp::kFloorDiv, {result.sizes[1], Expr(window.groups)});
      w.reads(results);
      const int inside = w.map({w.place(1)}, 4, [results](Builder& b, Values v) {
        return loop::binary(Op::kFloorMod, v[0], b.index(results));
      });
      in_weight = {{0, channel}, {1, inside}};
    }
  }
  int exists = ir::kNone;
  for (size_t d = 0; d < window.images; ++d) {
    const Read read = image_place(w, window, d, image[2 + d]);
    of_image.push_back(ir::kNone);
    of_weight.push_back(rank + 1 + static_cast<int>(d));
    in_image.push_back({2 + d, read.place});
    exists = exists == ir::kNone ? read.exists
                                 : w.map({exists, read.exists}, 1, [](Builder&, Values v) { return v[0] & v[1]; });
  }
  const int x = w.load_indexed(aten::convolution::input(node), of_image, in_image, exists);
  int total = sum_of_products(w, dtype, x, w.load_indexed(aten::convolution::weight(node), of_weight, in_weight));
  if (tensor_type(graph, aten::convolution::bias(node)) != nullptr)
    total = sum(w, dtype, total, w.load_along(aten::convolution::bias(node), {1}));
  w.result_without_row(node.results.front(), total);
}

constexpr LoneRule kMatrices = {fits_matrices, write_matrices, matrices_space, matrices_walk, matrices_lanes};
constexpr LoneRuleRow kLoneProductRules[] = {
    {aten::mm::kId, kMatrices},
    {aten::bmm::kId, kMatrices},
    {aten::addmm::kId, kMatrices},
    {aten::convolution::kId, {fits_convolution, write_convolution, convolution_space, convolution_walk}},
};

}  // namespace

std::span<const LoneRuleRow> lone_product_rules() { return kLoneProductRules; }

}  // namespace npugraph::lower
