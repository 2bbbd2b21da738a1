// SPDX-License-Identifier: Apache-2.0
#include "lower/kernel_choice.h"

#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ops/table.h"
#include "tensor/shape.h"

namespace npugraph::lower {

namespace {

// A call of a host operator costs about a microsecond: that many elements, or multiplications, a kernel does meanwhile.
constexpr int64_t kMaxElements = 16 * 1024;
constexpr int64_t kMaxMultiplications = 64 * 64 * 64;

// Of a product's second factor: larger ones are rather read by all threads.
constexpr int64_t kMaxWeights = 16 * 1024;

// Element types of the tensors that a rule takes, all equal, and of the result unless it says otherwise; the last two take i64
// tensors beside f32 ones too, for a result of f32.
enum class Accepts : uint8_t { kF32, kF32OrI64, kF32OrI64ToBool, kBool, kF32MixedWithI64, kF32OrI64OrMixed };

// A kernel that computes an operator, its in-place twin included. `inputs` arguments come first and go to the kernel as they are;
// the operator's remaining arguments must have their default values.
struct Rule {
  std::string_view op;
  std::string_view kernel;
  Accepts accepts;
  uint8_t inputs;
};

constexpr std::array kRules = {
    Rule{"aten.neg", "kernel.unary_neg", Accepts::kF32OrI64, 1},
    Rule{"aten.abs", "kernel.unary_abs", Accepts::kF32OrI64, 1},
    Rule{"aten.relu", "kernel.unary_relu", Accepts::kF32OrI64, 1},
    Rule{"aten.sqrt", "kernel.unary_sqrt", Accepts::kF32, 1},
    Rule{"aten.rsqrt", "kernel.unary_rsqrt", Accepts::kF32, 1},
    Rule{"aten.reciprocal", "kernel.unary_reciprocal", Accepts::kF32, 1},
    Rule{"aten.logical_not", "kernel.unary_logical_not", Accepts::kBool, 1},
    Rule{"aten.add.Tensor", "kernel.binary_add", Accepts::kF32OrI64, 2},
    Rule{"aten.sub.Tensor", "kernel.binary_sub", Accepts::kF32OrI64, 2},
    Rule{"aten.mul.Tensor", "kernel.binary_mul", Accepts::kF32OrI64OrMixed, 2},
    Rule{"aten.div.Tensor", "kernel.binary_div", Accepts::kF32MixedWithI64, 2},
    Rule{"aten.maximum", "kernel.binary_maximum", Accepts::kF32OrI64, 2},
    Rule{"aten.minimum", "kernel.binary_minimum", Accepts::kF32OrI64, 2},
    Rule{"aten.eq.Tensor", "kernel.binary_eq", Accepts::kF32OrI64ToBool, 2},
    Rule{"aten.ne.Tensor", "kernel.binary_ne", Accepts::kF32OrI64ToBool, 2},
    Rule{"aten.lt.Tensor", "kernel.binary_lt", Accepts::kF32OrI64ToBool, 2},
    Rule{"aten.le.Tensor", "kernel.binary_le", Accepts::kF32OrI64ToBool, 2},
    Rule{"aten.gt.Tensor", "kernel.binary_gt", Accepts::kF32OrI64ToBool, 2},
    Rule{"aten.ge.Tensor", "kernel.binary_ge", Accepts::kF32OrI64ToBool, 2},
    Rule{"aten.logical_and", "kernel.binary_logical_and", Accepts::kBool, 2},
    Rule{"aten.logical_or", "kernel.binary_logical_or", Accepts::kBool, 2},
};

std::unordered_map<const ir::Op*, const Rule*> find_rows() {
  std::unordered_map<const ir::Op*, const Rule*> rows;
  for (const Rule& rule : kRules) {
    const ir::Op& op = ops::require(rule.op);
    rows.emplace(&op, &rule);
    if (!op.inplace_twin.empty()) rows.emplace(&ops::require(op.inplace_twin), &rule);
  }
  return rows;
}

const Rule* find_rule(const ir::Op* op) {
  static const auto* rows = new std::unordered_map<const ir::Op*, const Rule*>(find_rows());
  const auto row = rows->find(op);
  return row == rows->end() ? nullptr : row->second;
}

bool accepts(Accepts rule, DType dtype) {
  switch (rule) {
    case Accepts::kF32:
    case Accepts::kF32MixedWithI64: return dtype == DType::kF32;
    case Accepts::kF32OrI64:
    case Accepts::kF32OrI64ToBool:
    case Accepts::kF32OrI64OrMixed: return dtype == DType::kF32 || dtype == DType::kI64;
    case Accepts::kBool: return dtype == DType::kBool;
  }
  return false;
}

const ir::TensorType* tensor_type(const ir::Graph& graph, const Attr& arg) {
  const auto* ref = std::get_if<TensorRef>(&arg);
  if (ref == nullptr || ref->id == TensorRef::kAbsent || !graph.value(ref->id).is_tensor()) return nullptr;
  return &graph.value(ref->id).tensor();
}

// The number of elements where every size is known and small enough.
bool is_small(const ir::TensorType& type) {
  const auto elements = numel(type.sizes).as_int();
  return elements && *elements <= kMaxElements;
}

// A number that the kernel can take in place of a tensor of `dtype` without changing the result's type.
bool is_plain_number(const Attr& arg, DType dtype) {
  const auto* number = std::get_if<Expr>(&arg);
  if (number == nullptr || !number->is_constant()) return false;
  return number->kind() == ScalarKind::kInt || (number->kind() == ScalarKind::kFloat && dtype == DType::kF32);
}

// One tensor of f32 and one of i64, computed in f32.
bool is_mixed(const ir::Graph& graph, const ir::Node& node, const Rule& rule) {
  if (rule.accepts != Accepts::kF32MixedWithI64 && rule.accepts != Accepts::kF32OrI64OrMixed) return false;
  const ir::TensorType* a = tensor_type(graph, node.args[0]);
  const ir::TensorType* b = tensor_type(graph, node.args[1]);
  if (a == nullptr || b == nullptr || graph.value(node.results[0]).tensor().dtype != DType::kF32) return false;
  return (a->dtype == DType::kI64 && b->dtype == DType::kF32) || (a->dtype == DType::kF32 && b->dtype == DType::kI64);
}

bool inputs_fit(const ir::Graph& graph, const ir::Node& node, const Rule& rule) {
  if (is_mixed(graph, node, rule)) return is_small(graph.value(node.results[0]).tensor());
  const ir::TensorType* first = tensor_type(graph, node.args[0]);
  if (first == nullptr || !accepts(rule.accepts, first->dtype)) return false;
  const ir::TensorType& result = graph.value(node.results[0]).tensor();
  if (result.dtype != (rule.accepts == Accepts::kF32OrI64ToBool ? DType::kBool : first->dtype)) return false;
  for (size_t i = 0; i < rule.inputs; ++i) {
    const ir::TensorType* type = tensor_type(graph, node.args[i]);
    if (type == nullptr ? !is_plain_number(node.args[i], first->dtype) : type->dtype != first->dtype) return false;
  }
  for (size_t i = rule.inputs; i < node.args.size(); ++i) {
    if (node.args[i] != node.op->schema.args[i].default_value) return false;
  }
  return is_small(result);
}

std::optional<KernelChoice> choose_elementwise(const ir::Graph& graph, const ir::Node& node) {
  const Rule* rule = find_rule(node.op);
  if (rule == nullptr || !inputs_fit(graph, node, *rule)) return std::nullopt;
  KernelChoice choice{.name = std::string(rule->kernel), .args = node.args, .is_elementwise = true};
  choice.args.resize(rule->inputs);
  return choice;
}

// aten.mm(x, w) and aten.addmm(bias, x, w) with both factors 1.
std::optional<KernelChoice> choose_product(const ir::Graph& graph, const ir::Node& node) {
  const bool has_bias = node.op->name == "aten.addmm";
  if (!has_bias && node.op->name != "aten.mm") return std::nullopt;
  const size_t at = has_bias ? 1 : 0;
  const ir::TensorType* x = tensor_type(graph, node.args[at]);
  const ir::TensorType* w = tensor_type(graph, node.args[at + 1]);
  if (x == nullptr || w == nullptr || x->dtype != DType::kF32 || w->dtype != DType::kF32) return std::nullopt;
  if (!is_small_product(*x, *w)) return std::nullopt;
  KernelChoice choice{.name = "kernel.mm_f32", .args = {node.args[at], node.args[at + 1]}};
  if (has_bias) {
    const ir::TensorType* bias = tensor_type(graph, node.args[0]);
    const auto is_one = [](const Attr& arg) {
      return std::holds_alternative<Expr>(arg) && std::get<Expr>(arg).is_int(1);
    };
    if (bias == nullptr || bias->dtype != DType::kF32 || bias->sizes.size() != 1 || bias->sizes[0] != w->sizes[1])
      return std::nullopt;
    if (!is_one(node.args[3]) || !is_one(node.args[4])) return std::nullopt;
    choice.args.push_back(node.args[0]);
  }
  return choice;
}

}  // namespace

bool is_small_product(const ir::TensorType& a, const ir::TensorType& b) {
  const auto weights = numel(b.sizes).as_int(), work = (numel(a.sizes) * b.sizes.back()).as_int();
  return weights && work && *weights <= kMaxWeights && *work <= kMaxMultiplications;
}

std::optional<KernelChoice> choose_kernel(const ir::Graph& graph, const ir::Node& node) {
  if (node.results.size() != 1 || node.results[0] == ir::kNone || !graph.value(node.results[0]).is_tensor())
    return std::nullopt;
  if (node.args.empty() || !node.defines.empty()) return std::nullopt;
  if (auto choice = choose_elementwise(graph, node)) return choice;
  return choose_product(graph, node);
}

}  // namespace npugraph::lower
