// SPDX-License-Identifier: Apache-2.0
#include "lower/terms.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "ops/scalar.h"

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

const ir::TensorType* tensor_argument(const ir::Graph& graph, const ir::Node& node, size_t arg) {
  const auto* ref = std::get_if<TensorRef>(&node.args[arg]);
  return ref == nullptr || ref->id == TensorRef::kAbsent ? nullptr : tensor_type(graph, ref->id);
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

}  // namespace

// Adds terms; the vocabulary of the rules below.
class TermWriter {
 public:
  TermWriter(Terms& terms, const ir::Graph& graph) : terms_(terms), graph_(graph) {}

  int load(ir::ValueId value) {
    const int known = terms_.term_of(value);
    if (known >= 0) return known;
    const auto& sizes = graph_.value(value).tensor().sizes;
    const bool row = (sizes.empty() || sizes.back().is_int(1)) && !terms_.space_.back().is_int(1);
    return name(value, add({.kind = Term::Kind::kLoad, .row = row, .value = value}));
  }
  int map(std::vector<int> args, int cost, Term::Formula formula) {
    Term term{.kind = Term::Kind::kMap, .row = true, .cost = cost};
    for (const int arg : args) {
      term.row = term.row && terms_.terms_[arg].row;
      term.level = std::max(term.level, terms_.terms_[arg].level);
      term.cost += terms_.terms_[arg].row ? 0 : terms_.terms_[arg].cost;
    }
    term.args = std::move(args);
    term.formula = std::move(formula);
    return add(std::move(term));
  }
  int reduce(Combine combine, int arg) {
    const Term& from = terms_.terms_[arg];
    return add({.kind = Term::Kind::kReduce, .row = true, .level = from.level + 1, .args = {arg}, .combine = combine});
  }
  int in_float(ir::ValueId value) {
    const DType compute = compute_type(graph_.value(value).tensor().dtype);
    return map({load(value)}, 0, [compute](Builder&, Values v) { return loop::cast(v[0], compute); });
  }
  // What a product in front of the group sums, in f32.
  int sums() { return add({.kind = Term::Kind::kLoad}); }
  int count(DType dtype) {
    const Expr n = terms_.space_.back();
    reads(n);
    return map({}, 0, [n, dtype](Builder& b, Values) { return loop::cast(b.index(n), dtype); });
  }
  void reads(const Expr& scalar) { terms_.scalars_.push_back(scalar); }
  // `value` is what `term` computes.
  int name(ir::ValueId value, int term) {
    terms_.known_.push_back({value, term});
    return term;
  }
  void result(ir::ValueId value, int term) {
    if (value == ir::kNone) return;
    const DType dtype = graph_.value(value).tensor().dtype;
    name(value, map({term}, 0, [dtype](Builder&, Values v) { return loop::cast(v[0], dtype); }));
  }

 private:
  int add(Term term) {
    terms_.terms_.push_back(std::move(term));
    return terms_.size() - 1;
  }

  Terms& terms_;
  const ir::Graph& graph_;
};

namespace {

// How a kind of node becomes terms.
struct Rule {
  bool (*fits)(const ir::Graph& graph, const ir::Node& node);
  void (*write)(TermWriter& w, const ir::Graph& graph, const ir::Node& node);
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

// (self, dims, keepdim, ...): the last dimension alone, kept.
bool fits_reduction(const ir::Graph& graph, const ir::Node& node) {
  const bool has_dtype = node.args.size() > 3 && !std::holds_alternative<None>(node.args[3]);
  return keeps_result_type(graph, node) && !has_dtype && is_true(node.args[2]) &&
         is_last_dim(node.args[1], tensor_argument(graph, node, 0)->sizes.size());
}
void write_sum(TermWriter& w, const ir::Graph&, const ir::Node& node) {
  w.result(node.results[0], w.reduce(Combine::kSum, w.in_float(value_of(node, 0))));
}
void write_mean(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  const DType dtype = compute_type(tensor_argument(graph, node, 0)->dtype);
  const int sum = w.reduce(Combine::kSum, w.in_float(value_of(node, 0)));
  w.result(node.results[0], w.map({sum, w.count(dtype)}, 1, div));
}
void write_max(TermWriter& w, const ir::Graph&, const ir::Node& node) {
  w.result(node.results[0], w.reduce(Combine::kMax, w.in_float(value_of(node, 0))));
}
void write_min(TermWriter& w, const ir::Graph&, const ir::Node& node) {
  w.result(node.results[0], w.reduce(Combine::kMin, w.in_float(value_of(node, 0))));
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

// What has a scalar meaning, with numbers that are constants or symbols.
bool fits_scalar(const ir::Graph& graph, const ir::Node& node) {
  const auto is_simple = [](const Attr& attr) {
    const auto* e = std::get_if<Expr>(&attr);
    return e == nullptr || e->is_constant() || e->op() == ExprOp::kSymbol;
  };
  return std::all_of(node.args.begin(), node.args.end(), is_simple) && ops::has_scalar_meaning(graph, node);
}
void write_scalar(TermWriter& w, const ir::Graph& graph, const ir::Node& node) {
  std::vector<int> args;
  std::unordered_map<ir::ValueId, size_t> index;
  for (const ir::ValueId operand : ir::operands(node)) {
    if (index.emplace(operand, args.size()).second) args.push_back(w.load(operand));
  }
  for (const Attr& attr : node.args) for_each_expr(attr, [&](const Expr& e) { w.reads(e); });
  const auto formula = [&graph, &node, index](Builder& b, Values v) {
    return ops::emit_scalar(graph, node,
                            {.builder = b,
                             .element = [&](ir::ValueId id) { return v[index.at(id)]; },
                             .scalar = [&](const Expr& e) { return b.read(e); }});
  };
  w.result(node.results[0], w.map(std::move(args), 4, formula));
}

const Rule* find_rule(const ir::Graph& graph, const ir::Node& node) {
  static const std::unordered_map<std::string_view, Rule> rules = {
      {"aten._softmax", {fits_softmax, write_softmax}},
      {"aten._log_softmax", {fits_softmax, write_log_softmax}},
      {"aten.sum.dim_IntList", {fits_reduction, write_sum}},
      {"aten.mean.dim", {fits_reduction, write_mean}},
      {"aten.amax", {fits_reduction, write_max}},
      {"aten.amin", {fits_reduction, write_min}},
      {"aten.native_layer_norm", {fits_layer_norm, write_layer_norm}},
  };
  static constexpr Rule kScalar = {fits_scalar, write_scalar};
  const auto found = rules.find(node.op->name);
  const Rule* rule = found == rules.end() ? &kScalar : &found->second;
  return rule->fits(graph, node) ? rule : nullptr;
}

}  // namespace

int Terms::term_of(ir::ValueId value) const {
  const auto at = std::find_if(known_.begin(), known_.end(), [&](const TermResult& r) { return r.value == value; });
  return at == known_.end() ? -1 : at->term;
}

bool Terms::has_reductions() const {
  return std::any_of(terms_.begin(), terms_.end(), [](const Term& t) { return t.kind == Term::Kind::kReduce; });
}

void Terms::add(const ir::Graph& graph, const ir::Node& node) {
  const Rule* rule = find_rule(graph, node);
  NG_CHECK(rule != nullptr, node.op->name, " has no terms");
  TermWriter writer(*this, graph);
  rule->write(writer, graph, node);
}

namespace {

// Multiplications from which on a product is worth code of its own.
constexpr int64_t kSmallProduct = int64_t{1} << 18;

bool is_small_product(const ir::TensorType& a, const ir::TensorType& result) {
  int64_t multiplications = 1;
  const auto multiply = [&](const Expr& size) {
    const auto known = size.as_int();
    return known && !__builtin_mul_overflow(multiplications, *known, &multiplications);
  };
  return multiply(a.sizes.back()) && std::all_of(result.sizes.begin(), result.sizes.end(), multiply) &&
         multiplications <= kSmallProduct;
}

}  // namespace

bool is_product(const ir::Graph& graph, const ir::Node& node) {
  const bool adds = node.op->name == "aten.addmm";
  if (!adds && node.op->name != "aten.mm" && node.op->name != "aten.bmm") return false;
  const auto is_one = [](const Attr& attr) {
    const auto* e = std::get_if<Expr>(&attr);
    return e != nullptr && e->is_constant() && e->value().as_float() == 1.0;
  };
  const auto* result = tensor_type(graph, node.results.front());
  if (result == nullptr || (result->dtype != DType::kF32 && result->dtype != DType::kBF16)) return false;
  const auto operands = ir::operands(node);
  const auto fits = [&](ir::ValueId id) {
    return tensor_type(graph, id) != nullptr && graph.value(id).tensor().dtype == result->dtype;
  };
  const bool is_plain =
      std::all_of(operands.begin(), operands.end(), fits) && (!adds || (is_one(node.args[3]) && is_one(node.args[4])));
  return is_plain && !is_small_product(graph.value(operands[adds ? 1 : 0]).tensor(), *result);
}

void Terms::add_product(const ir::Graph& graph, const ir::Node& node, ir::ValueId view) {
  TermWriter w(*this, graph);
  int sum = w.sums();
  if (node.op->name == "aten.addmm") {
    sum = w.map({sum, w.in_float(std::get<TensorRef>(node.args[0]).id)}, 1,
                [](Builder&, Values v) { return v[0] + v[1]; });
  }
  w.result(node.results.front(), sum);
  if (view != node.results.front()) w.name(view, term_of(node.results.front()));
}

std::optional<std::vector<Expr>> space_of(const ir::Graph& graph, const ir::Node& node) {
  if (node.results.empty() || !node.views.empty() || !node.defines.empty() || node.op->is(ir::Trait::kOpaque))
    return std::nullopt;
  const Rule* rule = find_rule(graph, node);
  if (rule == nullptr) return std::nullopt;
  const bool is_scalar = rule->write == write_scalar;
  std::vector<Expr> space =
      is_scalar ? graph.value(node.results.front()).tensor().sizes : tensor_argument(graph, node, 0)->sizes;
  if (space.empty()) space.emplace_back(1);
  return space;
}

}  // namespace npugraph::lower
