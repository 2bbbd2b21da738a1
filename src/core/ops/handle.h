// SPDX-License-Identifier: Apache-2.0
// Handles: an operator of the table, and its arguments, as C++ names. ops/operators.h, which the build generates from
// the rows, declares one struct for each row, named as in torch's at::_ops (aten.add.Tensor is aten::add_Tensor):
//
//   if (aten::addmm::is(node)) use(aten::addmm::mat1(node));      // an argument of one operator
//   if (const Attr* dim = arg::dim.find(node)) use(*dim);         // an argument that many operators have
//
// A misspelt operator or argument does not compile.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace npugraph::ops {

// The operator of row `id` of the table.
const ir::Op& operator_of(int32_t id);

// Base of the struct of row `id`.
template <int32_t id>
struct Handle {
  static constexpr int32_t kId = id;
  static const ir::Op& op() {
    static const ir::Op& found = operator_of(id);
    return found;
  }
  static bool is(const ir::Op& op) { return op.id == id; }
  static bool is(const ir::Node& node) { return node.op->id == id; }
  // False for a null node.
  static bool is(const ir::Node* node) { return node != nullptr && node->op->id == id; }
};

// Whether the operator is one of these.
template <typename... Handles>
bool is_any(const ir::Op& op) {
  return ((op.id == Handles::kId) || ...);
}
template <typename... Handles>
bool is_any(const ir::Node& node) {
  return is_any<Handles...>(*node.op);
}
template <typename... Handles>
bool is_any(const ir::Node* node) {
  return node != nullptr && is_any<Handles...>(*node->op);
}

// The tensor, number or numbers that an argument holds; kNone, null or nullopt if it holds something else.
inline ir::ValueId as_value(const Attr& attr) {
  const auto* ref = std::get_if<TensorRef>(&attr);
  return ref == nullptr || ref->id == TensorRef::kAbsent ? ir::kNone : ref->id;
}
inline const Expr* as_number(const Attr& attr) { return std::get_if<Expr>(&attr); }
inline const std::vector<Expr>* as_numbers(const Attr& attr) { return std::get_if<std::vector<Expr>>(&attr); }
inline std::optional<int64_t> as_int(const Attr& attr) {
  const Expr* number = as_number(attr);
  return number == nullptr ? std::nullopt : number->as_int();
}
inline std::optional<Scalar> as_constant(const Attr& attr) {
  const Expr* number = as_number(attr);
  return number == nullptr || !number->is_constant() ? std::nullopt : std::optional(number->value());
}

// An argument of one operator. Nodes passed to it must be calls of that operator.
struct ArgumentPlace {
  size_t position;
  const Attr& attr(const ir::Node& node) const { return node.args[position]; }
  Attr& attr(ir::Node& node) const { return node.args[position]; }
};

// An argument that holds a T, for example a `str` or a ScalarType. Null if it is None.
template <typename T>
struct Argument : ArgumentPlace {
  const T* operator()(const ir::Node& node) const { return std::get_if<T>(&attr(node)); }
};

// An integer, float, bool or Scalar argument. Null if it is None or complex.
template <>
struct Argument<Expr> : ArgumentPlace {
  const Expr* operator()(const ir::Node& node) const { return as_number(attr(node)); }
  std::optional<int64_t> as_int(const ir::Node& node) const { return ops::as_int(attr(node)); }
  std::optional<Scalar> as_constant(const ir::Node& node) const { return ops::as_constant(attr(node)); }
};

// A tensor argument. kNone if it is absent, or if the user's program has a number in its place.
template <>
struct Argument<TensorRef> : ArgumentPlace {
  ir::ValueId operator()(const ir::Node& node) const { return as_value(attr(node)); }
};

using TensorArgument = Argument<TensorRef>;
using TensorsArgument = Argument<std::vector<TensorRef>>;
using NumberArgument = Argument<Expr>;
using NumbersArgument = Argument<std::vector<Expr>>;

// An argument of any operator, found by its name.
struct ArgumentName {
  std::string_view name;

  // Position in the schema; nullopt if the operator has no argument of this name.
  std::optional<size_t> position(const ir::Op& op) const;
  const Attr* find(const ir::Node& node) const;
  // The operator must have it.
  const Attr& operator()(const ir::Node& node) const;
  Attr& operator()(ir::Node& node) const;
};

}  // namespace npugraph::ops
