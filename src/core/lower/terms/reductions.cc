// SPDX-License-Identifier: Apache-2.0
// Reductions and scans over any dimensions, softmax, norms.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/bounds.h"
#include "lower/terms/rule.h"

namespace npugraph::lower {

using loop::Builder;
using loop::Combine;
using loop::Op;
using loop::Value;

namespace {

Value exp(Builder&, Values v) { return loop::unary(Op::kExp, v[0]); }
Value log(Builder&, Values v) { return loop::unary(Op::kLog, v[0]); }
Value sqrt(Builder&, Values v) { return loop::unary(Op::kSqrt, v[0]); }
Value abs(Builder&, Values v) { return loop::unary(Op::kAbs, v[0]); }

std::vector<int> all_dims(size_t rank) {
  std::vector<int> dims(rank);
  for (size_t d = 0; d < rank; ++d) dims[d] = static_cast<int>(d);
  return dims;
}

// The dimensions that argument `dim` names: one, a list, or all if it is absent. A scalar has one, like its space.
// Returns nullopt if they are not constant, or if an empty list means something else.
std::optional<std::vector<int>> dims_of(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  if (self == nullptr) return std::nullopt;
  const size_t rank = std::max<size_t>(self->sizes.size(), 1);
  const Attr* argument = arg::dim.find(node);
  if (argument == nullptr || std::holds_alternative<None>(*argument)) return all_dims(rank);
  std::vector<Expr> named;
  if (const Expr* one = ops::as_number(*argument)) named = {*one};
  if (const auto* list = ops::as_numbers(*argument)) {
    const bool is_truth = ops::is_any<aten::any_dims, aten::all_dims>(node);
    if (list->empty()) return is_truth ? std::nullopt : std::optional(all_dims(rank));
    named = *list;
  }
  std::vector<int> dims;
  for (const Expr& e : named) {
    const auto dim = known_dim(e, rank);
    if (!dim || *dim < 0 || *dim >= static_cast<int>(rank)) return std::nullopt;
    dims.push_back(*dim);
  }
  return dims.empty() ? std::nullopt : std::optional(dims);
}
// Whether each row certainly has an element. For an empty row eager raises, so the operator itself has to run.
bool has_elements(const ir::Graph& graph, const ir::Node& node) {
  const auto& sizes = self_type(graph, node)->sizes;
  const auto dims = dims_of(graph, node);
  return dims && std::all_of(dims->begin(), dims->end(), [&](int d) {
           return sizes.empty() || ir::is_nonnegative(sizes[static_cast<size_t>(d)] - 1, graph.symbols);
         });
}
std::vector<int> walk_dims(const ir::Graph& graph, const ir::Node& node) { return *dims_of(graph, node); }

const ir::TensorType* first_result(const ir::Graph& graph, const ir::Node& node) {
  for (const ir::ValueId id : node.results) {
    if (const auto* type = tensor_type(graph, id)) return type;
  }
  return nullptr;
}

bool keeps_dims(const ir::Node& node) {
  const Attr* argument = arg::keepdim.find(node);
  const auto value = argument == nullptr ? std::nullopt : ops::as_constant(*argument);
  return value && value->as_bool();
}
// Declares a result with one value per row, with or without the dimensions of the row.
void row_result(TermWriter& w, const ir::Node& node, size_t result, int term) {
  if (node.results[result] == ir::kNone) return;
  if (keeps_dims(node)) return w.result(node.results[result], term);
  w.result_without_row(node.results[result], term);
}

// Floats to floats. The type of the result must hold all values of the operand's type: torch converts
// before it combines.
bool fits_float(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  const auto* result = first_result(graph, node);
  if (!is_float_tensor(self) || !is_float_tensor(result) || !dims_of(graph, node)) return false;
  return result->dtype == self->dtype || result->dtype == DType::kF64 ||
         (result->dtype == DType::kF32 && size_of(self->dtype) == 2);
}
// The operand in the type in which the result is computed.
int operand(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const DType dtype = compute_type(first_result(graph, node)->dtype);
  return w.map({w.load(self_of(node))}, 0, [dtype](Builder&, Values v) { return loop::cast(v[0], dtype); });
}
DType operand_type(const ir::Graph& graph, const ir::Node& node) {
  return compute_type(first_result(graph, node)->dtype);
}

// Sums and products of integers are i64.
bool fits_total(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  const auto* result = first_result(graph, node);
  if (self == nullptr || result == nullptr) return false;
  const bool counts = is_integral(self->dtype) && result->dtype == DType::kI64 && dims_of(graph, node);
  return counts || fits_float(graph, node);
}
template <Combine combine>
void write_total(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const DType dtype = is_integral(first_result(graph, node)->dtype) ? DType::kI64 : operand_type(graph, node);
  const int x = w.map({w.load(self_of(node))}, 0, [dtype](Builder&, Values v) { return loop::cast(v[0], dtype); });
  row_result(w, node, 0, w.reduce(combine, x));
}
int mean_of(TermWriter& w, DType dtype, int x) { return w.map({w.reduce(Combine::kSum, x), w.count(dtype)}, 1, div); }
void write_mean(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  row_result(w, node, 0, mean_of(w, operand_type(graph, node), operand(w, graph, node)));
}

// (self, dim, ...)
bool keeps_result_type(const ir::Graph& graph, const ir::Node& node) {
  return is_float_tensor(self_type(graph, node)) && is_float_tensor(first_result(graph, node)) && dims_of(graph, node);
}
int shifted(TermWriter& w, const ir::Node& node) {
  const int x = w.in_float(self_of(node));
  return w.map({x, w.reduce(Combine::kMax, x)}, 1, sub);
}
void write_softmax(TermWriter& w, const ir::Graph&, const ir::Node& node) {
  const int e = w.map({shifted(w, node)}, kFunctionCost, exp);
  w.result(node.results[0], w.map({e, w.reduce(Combine::kSum, e)}, 4, div));
}
void write_log_softmax(TermWriter& w, const ir::Graph&, const ir::Node& node) {
  const int x = shifted(w, node);
  const int sum = w.reduce(Combine::kSum, w.map({x}, kFunctionCost, exp));
  w.result(node.results[0], w.map({x, w.map({sum}, kFunctionCost, log)}, 1, sub));
}
// An infinite maximum is not subtracted: the difference would be NaN.
void write_logsumexp(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const int x = operand(w, graph, node);
  const int base = w.map({w.reduce(Combine::kMax, x)}, 1, [](Builder& b, Values v) {
    const Value zero = b.constant(v[0].dtype(), 0);
    return loop::select(loop::unary(Op::kAbs, v[0]) == INFINITY, zero, v[0]);
  });
  const int sum = w.reduce(Combine::kSum, w.map({w.map({x, base}, 1, sub)}, kFunctionCost, exp));
  row_result(w, node, 0,
             w.map({w.map({sum}, kFunctionCost, log), base}, 1, [](Builder&, Values v) { return v[0] + v[1]; }));
}

// (input, normalized_shape, weight?, bias?, eps) -> (output, mean, rstd): over the last dimensions.
bool fits_layer_norm(const ir::Graph& graph, const ir::Node& node) {
  using Norm = aten::native_layer_norm;
  const auto* self = tensor_type(graph, Norm::input(node));
  const auto* shape = Norm::normalized_shape(node);
  const auto fits = [&](ir::ValueId id) {
    const auto* parameter = tensor_type(graph, id);
    return parameter == nullptr ||
           (is_float_tensor(parameter) && compute_type(parameter->dtype) == compute_type(self->dtype));
  };
  return is_float_tensor(self) && is_float_tensor(first_result(graph, node)) && shape != nullptr && !shape->empty() &&
         shape->size() <= self->sizes.size() && Norm::eps.as_constant(node) && fits(Norm::weight(node)) &&
         fits(Norm::bias(node));
}
std::vector<int> layer_norm_dims(const ir::Graph& graph, const ir::Node& node) {
  using Norm = aten::native_layer_norm;
  std::vector<int> dims = all_dims(tensor_type(graph, Norm::input(node))->sizes.size());
  const auto count = static_cast<int64_t>(Norm::normalized_shape(node)->size());
  return {dims.end() - count, dims.end()};
}
void write_layer_norm(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  using Norm = aten::native_layer_norm;
  const DType dtype = compute_type(tensor_type(graph, Norm::input(node))->dtype);
  const double eps = Norm::eps.as_constant(node)->as_float();
  const int x = w.in_float(Norm::input(node));
  const int n = w.count(dtype);
  const int mean = w.map({w.reduce(Combine::kSum, x), n}, 1, div);
  const int centred = w.map({x, mean}, 1, sub);
  const int squares = w.reduce(Combine::kSum, w.map({centred, centred}, 1, mul));
  const int rstd =
      w.map({squares, n}, 4, [eps](Builder&, Values v) { return loop::unary(Op::kRsqrt, v[0] / v[1] + eps); });
  int y = w.map({centred, rstd}, 1, mul);
  const ir::ValueId weight = Norm::weight(node), bias = Norm::bias(node);
  if (weight != ir::kNone) y = w.map({y, w.in_float(weight)}, 1, mul);
  if (bias != ir::kNone) y = w.map({y, w.in_float(bias)}, 1, [](Builder&, Values v) { return v[0] + v[1]; });
  w.result(node.results[0], y);
  w.result(node.results[1], mean);
  w.result(node.results[2], rstd);
}

// (self, dim?, correction?, keepdim): the variance or its root, then the mean.
double correction_of(const ir::Node& node) {
  const auto value = ops::as_constant(arg::correction(node));
  return value ? value->as_float() : 1;
}
bool fits_variance(const ir::Graph& graph, const ir::Node& node) {
  const Expr* number = ops::as_number(arg::correction(node));
  return fits_float(graph, node) && (number == nullptr || number->is_constant());
}
template <bool is_root>
void write_variance(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const double correction = correction_of(node);
  const int x = operand(w, graph, node);
  const int n = w.count(operand_type(graph, node));
  const int mean = w.map({w.reduce(Combine::kSum, x), n}, 1, div);
  const int centred = w.map({x, mean}, 1, sub);
  const int squares = w.reduce(Combine::kSum, w.map({centred, centred}, 1, mul));
  int result = w.map({squares, n}, 4, [correction](Builder& b, Values v) {
    return v[0] / loop::max(v[1] - correction, b.constant(v[1].dtype(), 0));
  });
  if (is_root) result = w.map({result}, 4, sqrt);
  row_result(w, node, 0, result);
  if (node.results.size() > 1) row_result(w, node, 1, mean);
}

// (self, ord, dim?, keepdim, dtype?)
std::optional<double> known_order(const ir::Node& node) {
  const auto order = aten::linalg_vector_norm::ord.as_constant(node);
  return order ? std::optional(order->as_float()) : std::nullopt;
}
bool fits_norm(const ir::Graph& graph, const ir::Node& node) {
  const auto order = known_order(node);
  const bool is_known = order && (*order == 0 || *order == 1 || *order == 2 || std::isinf(*order));
  return is_known && fits_float(graph, node) && (!std::isinf(*order) || has_elements(graph, node));
}
void write_norm(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const double order = *known_order(node);
  const int x = operand(w, graph, node);
  if (order == 2) return row_result(w, node, 0, w.map({w.reduce(Combine::kSum, w.map({x, x}, 1, mul))}, 4, sqrt));
  if (order == 0) {
    const int counted = w.map({x}, 1, [](Builder&, Values v) { return loop::cast(v[0] != 0.0, v[0].dtype()); });
    return row_result(w, node, 0, w.reduce(Combine::kSum, counted));
  }
  const Combine combine = order == 1 ? Combine::kSum : order > 0 ? Combine::kMax : Combine::kMin;
  row_result(w, node, 0, w.reduce(combine, w.map({x}, 1, abs)));
}

// (self, dim?, keepdim?): whether some or all are not 0.
bool fits_truth(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  return self != nullptr && !is_complex(self->dtype) && first_result(graph, node) != nullptr && dims_of(graph, node);
}
template <Combine combine>
void write_truth(TermWriter& w, const ir::Graph&, const ir::Node& node) {
  const int x = w.map({w.load(self_of(node))}, 1, [](Builder&, Values v) { return loop::cast(v[0], DType::kBool); });
  row_result(w, node, 0, w.reduce(combine, x));
}

// (self, dim?, keepdim?) -> values, (values, indices) or indices alone.
bool is_comparable(DType dtype) { return is_floating(dtype) ? size_of(dtype) > 1 : dtype != DType::kBool; }
bool fits_any_extreme(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  return self != nullptr && dims_of(graph, node) && !is_complex(self->dtype) && is_comparable(self->dtype);
}
bool fits_extreme(const ir::Graph& graph, const ir::Node& node) {
  return fits_any_extreme(graph, node) && has_elements(graph, node);
}
int comparable(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const DType dtype = self_type(graph, node)->dtype;
  return is_floating(dtype) ? w.in_float(self_of(node)) : w.load(self_of(node));
}
// The first place of the row that has the extreme. In a row of several dimensions, a second reduction finds it among
// the places whose element equals the extreme.
int place_of(TermWriter& w, const ir::Graph& graph, const ir::Node& node, Combine combine, int x) {
  if (w.row_rank() == 1) return w.reduce_to_place(combine, x);
  const auto& sizes = self_type(graph, node)->sizes;
  std::vector<int> args = {x, w.reduce(combine, x)};
  std::vector<Expr> extents;
  for (const int d : w.row_dims()) {
    args.push_back(w.place(d));
    extents.push_back(sizes[static_cast<size_t>(d)]);
    w.reads(extents.back());
  }
  const int candidate = w.map(std::move(args), 4, [extents](Builder& b, Values v) {
    Value place = v[2];
    for (size_t d = 1; d < extents.size(); ++d) place = place * b.index(extents[d]) + v[2 + d];
    Value is_it = v[0] == v[1];
    if (is_floating(v[0].dtype())) is_it = is_it | (loop::unary(Op::kIsNan, v[0]) & loop::unary(Op::kIsNan, v[1]));
    const Value none = b.constant(DType::kI64, Scalar::of_int(std::numeric_limits<int64_t>::max()));
    return loop::select(is_it, place, none);
  });
  return w.reduce(Combine::kMin, candidate);
}
template <Combine combine>
void write_extreme(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  row_result(w, node, 0, w.reduce(combine, comparable(w, graph, node)));
}
template <Combine combine>
void write_place_of_extreme(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  row_result(w, node, 0, place_of(w, graph, node, combine, comparable(w, graph, node)));
}
template <Combine combine>
void write_extreme_and_place(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const int x = comparable(w, graph, node);
  if (node.results[0] != ir::kNone) row_result(w, node, 0, w.reduce(combine, x));
  if (node.results[1] != ir::kNone) row_result(w, node, 1, place_of(w, graph, node, combine, x));
}

// (self, dim, dtype?)
bool fits_scan(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = self_type(graph, node);
  const auto* result = first_result(graph, node);
  return self != nullptr && result != nullptr && self->dtype == result->dtype && dims_of(graph, node) &&
         is_comparable(self->dtype);
}
// The type of the accumulator that goes through the whole row. That of floats is eager's.
DType scan_dtype(DType dtype) {
  if (!is_floating(dtype)) return dtype == DType::kI32 ? dtype : DType::kI64;
  return size_of(dtype) < 4 ? DType::kF32 : DType::kF64;
}
template <Combine combine>
void write_scan(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const DType wide = scan_dtype(first_result(graph, node)->dtype);
  const int x = w.map({w.load(self_of(node))}, 0, [wide](Builder&, Values v) { return loop::cast(v[0], wide); });
  w.result(node.results[0], w.scan(combine, x));
}

constexpr Rule rows(decltype(Rule::fits) fits, decltype(Rule::write) write) {
  return {fits, write, TermKind::kRows, arg::self, walk_dims};
}
constexpr RuleRow kReductionRules[] = {
    {aten::_softmax::kId, rows(keeps_result_type, write_softmax)},
    {aten::_log_softmax::kId, rows(keeps_result_type, write_log_softmax)},
    {aten::logsumexp::kId, rows(fits_float, write_logsumexp)},
    {aten::native_layer_norm::kId, {fits_layer_norm, write_layer_norm, TermKind::kRows, arg::input, layer_norm_dims}},
    {aten::sum::kId, rows(fits_total, write_total<Combine::kSum>)},
    {aten::sum_dim_IntList::kId, rows(fits_total, write_total<Combine::kSum>)},
    {aten::prod::kId, rows(fits_total, write_total<Combine::kProduct>)},
    {aten::prod_dim_int::kId, rows(fits_total, write_total<Combine::kProduct>)},
    {aten::mean::kId, rows(fits_float, write_mean)},
    {aten::mean_dim::kId, rows(fits_float, write_mean)},
    {aten::var_correction::kId, rows(fits_variance, write_variance<false>)},
    {aten::var_mean_correction::kId, rows(fits_variance, write_variance<false>)},
    {aten::std_correction::kId, rows(fits_variance, write_variance<true>)},
    {aten::std_mean_correction::kId, rows(fits_variance, write_variance<true>)},
    {aten::linalg_vector_norm::kId, rows(fits_norm, write_norm)},
    {aten::any::kId, rows(fits_truth, write_truth<Combine::kOr>)},
    {aten::any_dim::kId, rows(fits_truth, write_truth<Combine::kOr>)},
    {aten::any_dims::kId, rows(fits_truth, write_truth<Combine::kOr>)},
    {aten::all::kId, rows(fits_truth, write_truth<Combine::kAnd>)},
    {aten::all_dim::kId, rows(fits_truth, write_truth<Combine::kAnd>)},
    {aten::all_dims::kId, rows(fits_truth, write_truth<Combine::kAnd>)},
    {aten::amax::kId, rows(fits_extreme, write_extreme<Combine::kMax>)},
    {aten::amin::kId, rows(fits_extreme, write_extreme<Combine::kMin>)},
    {aten::max::kId, rows(fits_extreme, write_extreme<Combine::kMax>)},
    {aten::min::kId, rows(fits_extreme, write_extreme<Combine::kMin>)},
    {aten::argmax::kId, rows(fits_extreme, write_place_of_extreme<Combine::kMax>)},
    {aten::argmin::kId, rows(fits_extreme, write_place_of_extreme<Combine::kMin>)},
    {aten::max_dim::kId, rows(fits_extreme, write_extreme_and_place<Combine::kMax>)},
    {aten::min_dim::kId, rows(fits_extreme, write_extreme_and_place<Combine::kMin>)},
    {aten::cumsum::kId, rows(fits_scan, write_scan<Combine::kSum>)},
    {aten::cumprod::kId, rows(fits_scan, write_scan<Combine::kProduct>)},
};

// Extremes of rows that may have no elements, of which eager has none either: their result is what no element is
// beyond.
constexpr LoneRule lone(decltype(Rule::write) write) { return {fits_any_extreme, write, space_of_self, walk_dims}; }
constexpr LoneRuleRow kLoneReductionRules[] = {
    {aten::amax::kId, lone(write_extreme<Combine::kMax>)},
    {aten::amin::kId, lone(write_extreme<Combine::kMin>)},
    {aten::max::kId, lone(write_extreme<Combine::kMax>)},
    {aten::min::kId, lone(write_extreme<Combine::kMin>)},
    {aten::argmax::kId, lone(write_place_of_extreme<Combine::kMax>)},
    {aten::argmin::kId, lone(write_place_of_extreme<Combine::kMin>)},
    {aten::max_dim::kId, lone(write_extreme_and_place<Combine::kMax>)},
    {aten::min_dim::kId, lone(write_extreme_and_place<Combine::kMin>)},
};

}  // namespace

std::span<const RuleRow> reduction_rules() { return kReductionRules; }
std::span<const LoneRuleRow> lone_reduction_rules() { return kLoneReductionRules; }

}  // namespace npugraph::lower
