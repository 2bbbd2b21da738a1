// SPDX-License-Identifier: Apache-2.0
// The internals of Expr, included only by expr*.cc and polynomial.cc.
//
// Invariants of every node, kept by Expr::make:
// - The arguments of an arithmetic node have the node's own kind (conversions are explicit to_int and to_float nodes),
//   those of a comparison have one kind.
// - An integer kAdd has at least two terms, in the order of compare_factors, no two with equal factors unless their
//   coefficients overflow when added; the constant is last. Each term is a constant, a monomial or a factor.
// - An integer kMul is either a monomial, [constant other than 1,] factor, factor..., factors in the order of
//   compare(), or a product of two sums that is too large to expand (is_unexpanded), which counts as one factor.
// - A factor is any other node.
// - A floating-point kAdd or kMul is evaluated from left to right; its first argument is no node of the same operator.
#pragma once

#include <compare>
#include <vector>

#include "tensor/expr.h"

namespace npugraph {

// The kinds that the arguments of an operator may have, and the kinds to which make() converts them.
enum class ArgRule : uint8_t {
  kNumbers,     // promoted to the widest of the arguments, at least int; so is the result
  kFloats,      // converted to float
  kAny,         // taken as they are
  kInts,        // int or bool, converted to int; a float is an error
  kBits,        // as kInts, but bool when all are bool
  kComparable,  // promoted to the widest of the arguments
  kBools,       // bool; anything else is an error
  kCondition,   // a bool, then two values promoted to the widest of the two
};

struct OpInfo {
  ExprOp op;
  std::string_view name;  // in the text form; empty for constants and symbols
  int min_args;
  int max_args;  // -1: any number
  ArgRule rule;
};

const OpInfo& info_of(ExprOp op);
// The operator of a function of the text form, or null.
const OpInfo* find_function(std::string_view name);

struct ExprNode {
  ExprOp op;
  ScalarKind kind;
  int depth;
  int64_t size;  // nodes and constants of the tree, shared ones counted each time
  size_t hash;
  std::string name;  // kSymbol only
  std::vector<Expr> args;

  // Wraps normalised arguments; nothing is simplified. UserError when the result is too deep or too large.
  static Expr create(ExprOp op, ScalarKind kind, std::vector<Expr> args);
  static Expr create_symbol(std::string name, ScalarKind kind);
  static const ExprNode* get(const Expr& e) { return e.node_.get(); }
};

// A product of two sums that is kept as one factor. Its text form is mul(a, b).
bool is_unexpanded(const Expr& e);

// A total order, the same in every process: constants, symbols (shorter names first), then the other operators.
std::strong_ordering compare(const Expr& a, const Expr& b);

// The result of applying an operator to constants: a value, or the reason why there is none.
struct Applied {
  Scalar value;
  const char* error = nullptr;
};

// Applies `op` to values whose kinds fit its ArgRule.
Applied apply_op(ExprOp op, std::span<const Scalar> args);

// The result of a comparison operator for two values in this order; for `unordered` (a NaN) only kNe is true.
bool apply_order(ExprOp op, std::partial_ordering order);

// Expr::make after arity and kinds were checked and conversions made.
Expr normalize(ExprOp op, ScalarKind kind, std::vector<Expr> args);

}  // namespace npugraph
