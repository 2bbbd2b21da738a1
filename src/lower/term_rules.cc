// SPDX-License-Identifier: Apache-2.0
#include "lower/term_rules.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "ir/alias.h"
#include "lower/arguments.h"
#include "ops/scalar.h"
#include "ops/table.h"
#include "tensor/shape.h"

namespace npugraph::lower {

using loop::Builder;
using loop::Combine;
using loop::Op;
using loop::Value;

namespace {

using Values = std::span<const Value>;

DType compute_type(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

const ir::TensorType* tensor_type(const ir::Graph& graph, ir::ValueId id) {
  return id == ir::kNone ? nullptr : std::get_if<ir::TensorType>(&graph.value(id).type);
}

bool is_float_tensor(const ir::TensorType* type) {
  return type != nullptr && (type->dtype == DType::kF32 || type->dtype == DType::kF64 || type->dtype == DType::kBF16 ||
                             type->dtype == DType::kF16);
}

// Whether `attr` names the last dimension and no other.
bool is_last_dim(const Attr& attr, size_t rank) {
  const auto is_last = [&](const Expr& e) { return e.is_int(-1) || e.is_int(static_cast<int64_t>(rank) - 1); };
  if (const auto* e = std::get_if<Expr>(&attr)) return is_last(*e);
  const auto* list = std::get_if<std::vector<Expr>>(&attr);
  return list != nullptr && list->size() == 1 && is_last(list->front());
}

bool is_true(const Attr& attr) {
  const auto* e = std::get_if<Expr>(&attr);
  return e != nullptr && e->is_constant() && e->value().as_bool();
}

// How a kind of node becomes terms.
struct Rule {
  bool (*fits)(const ir::Graph& graph, const ir::Node& node);
  void (*write)(TermWriter& w, const ir::Graph& graph, const ir::Node& node);
  TermKind kind;
  // The argument whose sizes are the space; kNone: the result's.
  int space = ir::kNone;
};

ir::ValueId value_of(const ir::Node& node, size_t arg) { return std::get<TensorRef>(node.args[arg]).id; }
bool has(const ir::Node& node, size_t arg) {
  const auto* ref = std::get_if<TensorRef>(&node.args[arg]);
  return ref != nullptr && ref->id != TensorRef::kAbsent;
}

Value sub(Builder&, Values v) { return v[0] - v[1]; }
Value mul(Builder&, Values v) { return v[0] * v[1]; }
Value div(Builder&, Values v) { return v[0] / v[1]; }
Value exp(Builder&, Values v) { return loop::unary(Op::kExp, v[0]); }
constexpr int kFunctionCost = 16;

bool keeps_result_type(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = tensor_argument(graph, node, 0);
  return is_float_tensor(self) && !self->sizes.empty() && is_float_tensor(tensor_type(graph, node.results.front()));
}

// (self, dim, ...)
bool fits_softmax(const ir::Graph& graph, const ir::Node& node) {
  return keeps_result_type(graph, node) && is_last_dim(node.args[1], tensor_argument(graph, node, 0)->sizes.size());
}
int shifted(TermWriter& w, const ir::Node& node) {
  const int x = w.in_float(value_of(node, 0));
  return w.map({x, w.reduce(Combine::kMax, x)}, 1, sub);
}
void write_softmax(TermWriter& w, const ir::Graph&, const ir::Node& node) {
  const int e = w.map({shifted(w, node)}, kFunctionCost, exp);
  w.result(node.results[0], w.map({e, w.reduce(Combine::kSum, e)}, 4, div));
}
void write_log_softmax(TermWriter& w, const ir::Graph&, const ir::Node& node) {
  const int x = shifted(w, node);
  const int sum = w.reduce(Combine::kSum, w.map({x}, kFunctionCost, exp));
  const int log = w.map({sum}, kFunctionCost, [](Builder&, Values v) { return loop::unary(Op::kLog, v[0]); });
  w.result(node.results[0], w.map({x, log}, 1, sub));
}

// (self, dims, keepdim, ...): the last dimension alone.
bool fits_reduction(const ir::Graph& graph, const ir::Node& node) {
  const bool has_dtype = node.args.size() > 3 && !std::holds_alternative<None>(node.args[3]);
  return keeps_result_type(graph, node) && !has_dtype &&
         is_last_dim(node.args[1], tensor_argument(graph, node, 0)->sizes.size());
}
// A value per row, which stays a dimension of the result or not.
void row_result(TermWriter& w, const ir::Node& node, size_t result, int term) {
  if (is_true(node.args[2])) return w.result(node.results[result], term);
  w.result_without_row(node.results[result], term);
}
void write_sum(TermWriter& w, const ir::Graph&, const ir::Node& node) {
  row_result(w, node, 0, w.reduce(Combine::kSum, w.in_float(value_of(node, 0))));
}
void write_mean(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const DType dtype = compute_type(tensor_argument(graph, node, 0)->dtype);
  const int sum = w.reduce(Combine::kSum, w.in_float(value_of(node, 0)));
  row_result(w, node, 0, w.map({sum, w.count(dtype)}, 1, div));
}
void write_max(TermWriter& w, const ir::Graph&, const ir::Node& node) {
  row_result(w, node, 0, w.reduce(Combine::kMax, w.in_float(value_of(node, 0))));
}
void write_min(TermWriter& w, const ir::Graph&, const ir::Node& node) {
  row_result(w, node, 0, w.reduce(Combine::kMin, w.in_float(value_of(node, 0))));
}

// (input, normalized_shape, weight?, bias?, eps) -> (output, mean, rstd)
bool fits_layer_norm(const ir::Graph& graph, const ir::Node& node) {
  const auto* shape = std::get_if<std::vector<Expr>>(&node.args[1]);
  const auto* eps = std::get_if<Expr>(&node.args[4]);
  const auto fits = [&](size_t arg) {
    const auto* parameter = tensor_argument(graph, node, arg);
    return parameter == nullptr ||
           (is_float_tensor(parameter) &&
            compute_type(parameter->dtype) == compute_type(tensor_argument(graph, node, 0)->dtype));
  };
  return keeps_result_type(graph, node) && shape != nullptr && shape->size() == 1 && eps != nullptr &&
         eps->is_constant() && fits(2) && fits(3);
}
void write_layer_norm(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const DType dtype = compute_type(tensor_argument(graph, node, 0)->dtype);
  const double eps = std::get<Expr>(node.args[4]).value().as_float();
  const int x = w.in_float(value_of(node, 0));
  const int n = w.count(dtype);
  const int mean = w.map({w.reduce(Combine::kSum, x), n}, 1, div);
  const int centred = w.map({x, mean}, 1, sub);
  const int squares = w.reduce(Combine::kSum, w.map({centred, centred}, 1, mul));
  const int rstd =
      w.map({squares, n}, 4, [eps](Builder&, Values v) { return loop::unary(Op::kRsqrt, v[0] / v[1] + eps); });
  int y = w.map({centred, rstd}, 1, mul);
  if (has(node, 2)) y = w.map({y, w.in_float(value_of(node, 2))}, 1, mul);
  if (has(node, 3)) y = w.map({y, w.in_float(value_of(node, 3))}, 1, [](Builder&, Values v) { return v[0] + v[1]; });
  w.result(node.results[0], y);
  w.result(node.results[1], mean);
  w.result(node.results[2], rstd);
}

// (self, dim, keepdim) -> (values, indices) or indices alone.
bool is_comparable(DType dtype) { return is_floating(dtype) ? size_of(dtype) > 1 : dtype != DType::kBool; }
bool fits_extreme(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = tensor_argument(graph, node, 0);
  return self != nullptr && !self->sizes.empty() && !is_complex(self->dtype) && is_comparable(self->dtype) &&
         is_last_dim(node.args[1], self->sizes.size()) && self->sizes.back().as_int().value_or(1) > 0;
}
int comparable(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const DType dtype = tensor_argument(graph, node, 0)->dtype;
  return is_floating(dtype) ? w.in_float(value_of(node, 0)) : w.load(value_of(node, 0));
}
template <Combine combine>
void write_place_of_extreme(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  row_result(w, node, 0, w.reduce_to_place(combine, comparable(w, graph, node)));
}
template <Combine combine>
void write_extreme_and_place(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const int x = comparable(w, graph, node);
  if (node.results[0] != ir::kNone) row_result(w, node, 0, w.reduce(combine, x));
  if (node.results[1] != ir::kNone) row_result(w, node, 1, w.reduce_to_place(combine, x));
}

// (self, dim, dtype)
bool fits_cumsum(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = tensor_argument(graph, node, 0);
  const auto* result = tensor_type(graph, node.results.front());
  return self != nullptr && result != nullptr && !self->sizes.empty() && self->dtype == result->dtype &&
         (result->dtype == DType::kF32 || result->dtype == DType::kF64 || result->dtype == DType::kI64 ||
          result->dtype == DType::kI32) &&
         is_last_dim(node.args[1], self->sizes.size());
}
void write_cumsum(TermWriter& w, const ir::Graph&, const ir::Node& node) {
  w.result(node.results[0], w.scan(Combine::kSum, w.load(value_of(node, 0))));
}

// (input, weight?, bias?, mean, var, momentum, eps) -> (output, nothing, nothing): a number per element of dimension 1.
bool fits_batch_norm(const ir::Graph& graph, const ir::Node& node) {
  const auto* self = tensor_argument(graph, node, 0);
  const auto* eps = std::get_if<Expr>(&node.args[6]);
  if (!is_float_tensor(self) || self->sizes.size() < 2 || eps == nullptr || !eps->is_constant()) return false;
  for (const size_t arg : {1, 2, 3, 4}) {
    const auto* parameter = tensor_argument(graph, node, arg);
    if (parameter == nullptr ? arg > 2 || has(node, arg) : !is_float_tensor(parameter)) return false;
    if (parameter != nullptr && compute_type(parameter->dtype) != compute_type(self->dtype)) return false;
  }
  return is_float_tensor(tensor_type(graph, node.results.front()));
}
void write_batch_norm(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const DType dtype = compute_type(tensor_argument(graph, node, 0)->dtype);
  const double eps = std::get<Expr>(node.args[6]).value().as_float();
  const auto parameter = [&](size_t arg) {
    return w.map({w.load_along(value_of(node, arg), {1})}, 0,
                 [dtype](Builder&, Values v) { return loop::cast(v[0], dtype); });
  };
  int scale = w.map({parameter(4)}, 4, [eps](Builder&, Values v) { return loop::unary(Op::kRsqrt, v[0] + eps); });
  if (has(node, 1)) scale = w.map({scale, parameter(1)}, 1, mul);
  int y = w.map({w.map({w.in_float(value_of(node, 0)), parameter(3)}, 1, sub), scale}, 1, mul);
  if (has(node, 2)) y = w.map({y, parameter(2)}, 1, [](Builder&, Values v) { return v[0] + v[1]; });
  w.result(node.results[0], y);
}

// What has a scalar meaning, with numbers that are constants or symbols.
bool has_simple_numbers(const ir::Node& node) {
  const auto is_simple = [](const Attr& attr) {
    const auto* e = std::get_if<Expr>(&attr);
    return e == nullptr || e->is_constant() || e->op() == ExprOp::kSymbol;
  };
  return std::all_of(node.args.begin(), node.args.end(), is_simple);
}
// Which of two zeros these take depends, in torch, on where an element lies.
bool chooses_zeros(const ir::Op& op) {
  static constexpr std::string_view kNames[] = {"aten.fmax", "aten.fmin", "aten.clamp.Tensor", "aten.clamp_min.Tensor",
                                                "aten.clamp_max.Tensor"};
  return std::find(std::begin(kNames), std::end(kNames), op.name) != std::end(kNames);
}
bool fits_scalar(const ir::Graph& graph, const ir::Node& node) {
  return !chooses_zeros(*node.op) && has_simple_numbers(node) && ops::has_scalar_meaning(graph, node);
}
int scalar_term(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  std::vector<int> args;
  std::unordered_map<ir::ValueId, size_t> index;
  for (const ir::ValueId operand : ir::operands(node)) {
    if (index.emplace(operand, args.size()).second) args.push_back(w.load(operand));
  }
  for (const Attr& attr : node.args) for_each_expr(attr, [&](const Expr& e) { w.reads(e); });
  // Terms outlive the node where it is a copy.
  return w.map(std::move(args), 4, [&graph, node, index](Builder& b, Values v) {
    return ops::emit_scalar(graph, node,
                            {.builder = b,
                             .element = [&](ir::ValueId id) { return v[index.at(id)]; },
                             .scalar = [&](const Expr& e) { return b.read(e); }});
  });
}
void write_scalar(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  w.result(node.results[0], scalar_term(w, graph, node));
}

// The node that computes what an in-place node writes into its first operand.
std::optional<ir::Node> functional_form(const ir::Node& node) {
  const std::string& name = node.op->name;
  const size_t dot = name.find('.', name.find('.') + 1);
  const size_t end = dot == std::string::npos ? name.size() : dot;
  if (node.results.size() != 1 || node.results[0] == ir::kNone || name[end - 1] != '_') return std::nullopt;
  const ir::Op* op = ops::registry().find(name.substr(0, end - 1) + name.substr(end));
  if (op == nullptr || op->inplace_twin != name) return std::nullopt;
  ir::Node functional = node;
  functional.op = op;
  return functional;
}
// Operands of other types than the one written would compute in a type that the functional form does not know of.
bool fits_write(const ir::Graph& graph, const ir::Node& node) {
  const auto functional = functional_form(node);
  const auto* self = functional ? tensor_argument(graph, node, 0) : nullptr;
  if (self == nullptr || ir::written_operands(node) != std::vector{value_of(node, 0)}) return false;
  const auto operands = ir::operands(node);
  const bool converts = functional->op->name == "aten.copy";
  const bool same_types = std::all_of(operands.begin(), operands.end(), [&](ir::ValueId id) {
    const auto* type = tensor_type(graph, id);
    return type != nullptr && (converts || type->dtype == self->dtype) && type->sizes.size() <= self->sizes.size();
  });
  return same_types && ir::has_distinct_elements(*self, graph.symbols) && fits_scalar(graph, *functional);
}
void write_write(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  w.write(value_of(node, 0), node.results[0], scalar_term(w, graph, *functional_form(node)));
}

// (tensors, dim): along the rows, of one type and rank.
constexpr size_t kMostParts = 4;
bool fits_cat(const ir::Graph& graph, const ir::Node& node) {
  const auto* parts = std::get_if<std::vector<TensorRef>>(&node.args[0]);
  const auto* result = tensor_type(graph, node.results.front());
  if (parts == nullptr || result == nullptr || parts->size() > kMostParts || size_of(result->dtype) > 8) return false;
  return !is_complex(result->dtype) && !result->sizes.empty() && is_last_dim(node.args[1], result->sizes.size()) &&
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

// The only part of a concatenation that has elements, of the type of the result.
std::optional<ir::ValueId> only_part(const ir::Graph& graph, const ir::Node& node) {
  const auto* parts = node.op->name == "aten.cat" ? std::get_if<std::vector<TensorRef>>(&node.args[0]) : nullptr;
  const auto* result = parts == nullptr ? nullptr : tensor_type(graph, node.results.front());
  if (result == nullptr || is_complex(result->dtype) || size_of(result->dtype) > 8) return std::nullopt;
  std::optional<ir::ValueId> found;
  for (const TensorRef& part : *parts) {
    const auto* type = tensor_type(graph, part.id);
    if (type == nullptr || (!ir::is_empty(*type) && found)) return std::nullopt;
    if (!ir::is_empty(*type)) found = part.id;
  }
  const auto* type = found ? tensor_type(graph, *found) : nullptr;
  return type != nullptr && type->dtype == result->dtype && type->sizes == result->sizes ? found : std::nullopt;
}
bool fits_only_part(const ir::Graph& graph, const ir::Node& node) { return only_part(graph, node).has_value(); }
void write_only_part(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  w.result(node.results[0], w.load(*only_part(graph, node)));
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

std::optional<size_t> dim_of(const Attr& attr, size_t rank) {
  const auto* e = std::get_if<Expr>(&attr);
  const auto dim = e == nullptr ? std::nullopt : e->as_int();
  if (!dim) return std::nullopt;
  return static_cast<size_t>(*dim < 0 ? *dim + static_cast<int64_t>(rank) : *dim);
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

const Rule* find_rule(const ir::Graph& graph, const ir::Node& node) {
  constexpr TermKind kRows = TermKind::kRows, kGather = TermKind::kGather;
  static const std::unordered_map<std::string_view, Rule> rules = {
      {"aten._softmax", {fits_softmax, write_softmax, kRows, 0}},
      {"aten._log_softmax", {fits_softmax, write_log_softmax, kRows, 0}},
      {"aten.sum.dim_IntList", {fits_reduction, write_sum, kRows, 0}},
      {"aten.mean.dim", {fits_reduction, write_mean, kRows, 0}},
      {"aten.amax", {fits_reduction, write_max, kRows, 0}},
      {"aten.amin", {fits_reduction, write_min, kRows, 0}},
      {"aten.argmax", {fits_extreme, write_place_of_extreme<Combine::kMax>, kRows, 0}},
      {"aten.argmin", {fits_extreme, write_place_of_extreme<Combine::kMin>, kRows, 0}},
      {"aten.max.dim", {fits_extreme, write_extreme_and_place<Combine::kMax>, kRows, 0}},
      {"aten.min.dim", {fits_extreme, write_extreme_and_place<Combine::kMin>, kRows, 0}},
      {"aten.cumsum", {fits_cumsum, write_cumsum, kRows, 0}},
      {"aten.native_layer_norm", {fits_layer_norm, write_layer_norm, kRows, 0}},
      {"aten._native_batch_norm_legit_no_training", {fits_batch_norm, write_batch_norm, TermKind::kElementwise}},
      {"aten.cat", {fits_cat, write_cat, TermKind::kConcatenation}},
      {"aten.embedding", {fits_gather, write_gather, kGather}},
      {"aten.index_select", {fits_gather, write_gather, kGather}},
      {"aten.gather", {fits_gather, write_gather, kGather}},
      {"aten.index.Tensor", {fits_gather, write_gather, kGather}},
      {"aten.index_copy_", {fits_index_copy, write_index_copy, TermKind::kScatter, 3}},
  };
  static constexpr Rule kScalar = {fits_scalar, write_scalar, TermKind::kElementwise};
  static constexpr Rule kOnlyPart = {fits_only_part, write_only_part, TermKind::kElementwise};
  static constexpr Rule kInPlace = {fits_write, write_write, TermKind::kWrite};
  if (node.results.empty() || !node.views.empty() || !node.defines.empty() || node.op->is(ir::Trait::kOpaque))
    return nullptr;
  if (fits_only_part(graph, node)) return &kOnlyPart;
  const auto found = rules.find(node.op->name);
  const Rule* by_kind = node.op->is(ir::Trait::kMutates) ? &kInPlace : &kScalar;
  const Rule* rule = found == rules.end() ? by_kind : &found->second;
  return rule->fits(graph, node) ? rule : nullptr;
}

}  // namespace

void write_terms(TermWriter& writer, const ir::Graph& graph, const ir::Node& node) {
  const Rule* rule = find_rule(graph, node);
  NG_CHECK(rule != nullptr, node.op->name, " has no terms");
  rule->write(writer, graph, node);
}

std::optional<TermKind> term_kind(const ir::Graph& graph, const ir::Node& node) {
  const Rule* rule = find_rule(graph, node);
  return rule == nullptr ? std::nullopt : std::optional(rule->kind);
}

ir::ValueId index_operand(const ir::Node& node) {
  if (node.op->name == "aten.index.Tensor") return only_index(node.args[1])->first;
  return value_of(node, node.op->name == "aten.embedding" ? 1 : 2);
}

std::optional<std::vector<Expr>> space_of(const ir::Graph& graph, const ir::Node& node) {
  const Rule* rule = find_rule(graph, node);
  if (rule == nullptr) return std::nullopt;
  const ir::ValueId of = rule->space == ir::kNone ? node.results.front() : value_of(node, rule->space);
  std::vector<Expr> space = graph.value(of).tensor().sizes;
  if (space.empty()) space.emplace_back(1);
  return space;
}

}  // namespace npugraph::lower
