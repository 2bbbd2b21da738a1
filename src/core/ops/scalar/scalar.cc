// SPDX-License-Identifier: Apache-2.0
#include "ops/scalar.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "loop/evaluate.h"
#include "ops/scalar/scalar_rules.h"
#include "ops/shapes/promote.h"

namespace npugraph::ops {
namespace {

using loop::Value;

bool is_compute_number(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || (is_integral(dtype) && dtype != DType::kBool);
}

// The common type of all arguments that take part in promotion.
std::optional<DType> common_type(const Call& call) {
  std::vector<size_t> args;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const std::string_view name = call.op.schema.args[i].name;
    const bool is_number = std::holds_alternative<Expr>(call.args[i]);
    if (call.tensor(i) != nullptr || (is_number && (name == "self" || name == "other"))) args.push_back(i);
  }
  return result_type(call, args);
}

struct ScalarTypes {
  DType common;
  DType compute;
  DType result;
};

std::optional<ScalarTypes> types_of(const Call& call, Domain domain, DType result) {
  const auto with = [&](DType common) { return ScalarTypes{common, compute_type(common), result}; };
  switch (domain) {
    case Domain::kNone: return std::nullopt;
    case Domain::kSame: return ScalarTypes{result, result, result};
    case Domain::kTruth: return ScalarTypes{DType::kBool, DType::kBool, result};
    case Domain::kBits:
      return is_integral(result) && call.tensor(0) != nullptr && call.tensor(0)->dtype == result
                 ? std::optional(ScalarTypes{result, result, result})
                 : std::nullopt;
    case Domain::kFloat: {
      const ScalarTypes types = with(result);
      return is_floating(result) && is_compute_number(types.compute) ? std::optional(types) : std::nullopt;
    }
    case Domain::kNumber: {
      const ScalarTypes types = with(result);
      return is_compute_number(types.compute) ? std::optional(types) : std::nullopt;
    }
    case Domain::kPredicate: {
      const auto* self = call.tensor(0);
      if (self == nullptr || !is_floating(self->dtype)) return std::nullopt;
      const ScalarTypes types = with(self->dtype);
      return is_compute_number(types.compute) ? std::optional(types) : std::nullopt;
    }
    case Domain::kCompare: {
      const auto common = common_type(call);
      if (!common) return std::nullopt;
      const ScalarTypes types = with(*common);
      const bool fits = is_compute_number(types.compute) || types.compute == DType::kBool;
      return fits ? std::optional(types) : std::nullopt;
    }
  }
  return std::nullopt;
}

struct Meaning {
  const ScalarRule* rule;
  Numbers numbers;
  ScalarTypes types;
};

bool is_scalar_type(DType dtype) { return !is_complex(dtype) && size_of(dtype) <= 8; }

std::optional<Meaning> find_meaning(const ir::Graph& graph, const ir::Node& node) {
  const Row* row = node.op == nullptr || node.results.size() != 1 ? nullptr : row_of(*node.op);
  if (row == nullptr || row->scalar.domain == Domain::kNone) return std::nullopt;
  const ScalarRule& rule = row->scalar;
  const auto* result = std::get_if<ir::TensorType>(&graph.value(node.results.front()).type);
  const Call call{graph, *node.op, node.args, node.defines};
  if (result == nullptr || !is_scalar_type(result->dtype) || (rule.fits != nullptr && !rule.fits(call)))
    return std::nullopt;
  for (size_t i = 0; i < node.args.size(); ++i) {
    const auto* ref = std::get_if<TensorRef>(&node.args[i]);
    const bool is_absent = ref != nullptr && ref->id == TensorRef::kAbsent;
    if (ref != nullptr && !is_absent && (call.tensor(i) == nullptr || !is_scalar_type(call.tensor(i)->dtype)))
      return std::nullopt;
    if (std::holds_alternative<std::complex<double>>(node.args[i])) return std::nullopt;
  }
  const auto types = types_of(call, rule.domain, result->dtype);
  return types ? std::optional(Meaning{&rule, row->numbers, *types}) : std::nullopt;
}

}  // namespace

Value ScalarArgs::as(size_t arg, DType dtype) const {
  const Attr& attr = call_.args[arg];
  if (const auto* ref = std::get_if<TensorRef>(&attr)) {
    return loop::cast(source_.element(ref->id), dtype);
  }
  const Expr& number = std::get<Expr>(attr);
  if (number.is_constant()) {
    const Scalar value = number.value();
    if (dtype == DType::kBool) return source_.builder.constant(dtype, Scalar::of_bool(value.as_bool()));
    return source_.builder.constant(
        dtype, is_integral(dtype) ? Scalar::of_int(value.as_int()) : Scalar::of_float(value.as_float()));
  }
  return loop::cast(source_.scalar(number), dtype);
}

bool ScalarArgs::is_rounded(size_t arg) const {
  if (numbers_ != Numbers::kUnrounded) return true;
  const auto* tensor = call_.tensor(arg);
  if (tensor == nullptr) return false;
  const bool is_one = std::ranges::all_of(tensor->sizes, [](const Expr& size) { return size.is_int(1); });
  return !is_one || call_.op.schema.args[arg].name != "other";
}

Value ScalarArgs::operator[](size_t arg) const {
  return loop::cast(as(arg, is_rounded(arg) ? common_ : compute_), compute_);
}

size_t ScalarArgs::place(std::string_view name) const {
  const auto arg = call_.find(name);
  NG_CHECK(arg, call_.op.name, " has no argument ", name);
  return *arg;
}

std::optional<double> ScalarArgs::known(size_t arg) const {
  const auto* number = std::get_if<Expr>(&call_.args[arg]);
  if (number == nullptr || !number->is_constant()) return std::nullopt;
  return number->value().as_float();
}

bool ScalarArgs::is_number(std::string_view name, double value) const {
  const auto arg = call_.find(name);
  const auto number = arg ? known(*arg) : std::nullopt;
  if (!number || !is_floating(common_) || !is_rounded(*arg)) return number == value;
  const auto rounded = loop::constant_number(common_, loop::constant_bits(common_, Scalar::of_float(*number)));
  return rounded && rounded->as_float() == value;
}

std::string_view ScalarArgs::text(size_t arg) const {
  const auto* text = std::get_if<std::string>(&call_.args[arg]);
  return text == nullptr ? std::string_view() : *text;
}

bool has_scalar_meaning(const ir::Graph& graph, const ir::Node& node) { return find_meaning(graph, node).has_value(); }

Value emit_scalar(const ir::Graph& graph, const ir::Node& node, const ScalarSource& source) {
  const auto meaning = find_meaning(graph, node);
  NG_CHECK(meaning, node.op->name, " has no scalar meaning");
  const Call call{graph, *node.op, node.args, node.defines};
  const ScalarArgs args(call, meaning->numbers, source, meaning->types.common, meaning->types.compute,
                        meaning->types.result);
  return loop::cast(meaning->rule->formula(args), meaning->types.result);
}

}  // namespace npugraph::ops
