// SPDX-License-Identifier: Apache-2.0
// Symbolic scalars: sizes, strides and scalar arguments that are known only when a Program is bound to a call.
//
// An Expr is an immutable value (a constant without allocation, or a shared node); copying is cheap and thread-safe.
// Constructors normalise: constants fold, sums and products are flat, sorted and collected, so that sizes which are
// equal as polynomials compare equal. Integer arithmetic is 64-bit two's complement with an overflow check at
// evaluation; floordiv and mod follow Python (round towards minus infinity, sign of the divisor), and so do round (half
// to even) and the promotion of mixed arguments (bool to int to float). floor, ceil, trunc and round give integers.
// Division by zero is an error for integers and floats; all other floating-point operators follow IEEE 754 and are
// never reassociated.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace npugraph {

enum class ScalarKind : uint8_t { kInt, kFloat, kBool };
inline constexpr std::array<std::string_view, 3> kScalarKindNames = {"int", "float", "bool"};

// A scalar value. kBool keeps 0 or 1 in `i`.
struct Scalar {
  ScalarKind kind = ScalarKind::kInt;
  union {
    int64_t i = 0;
    double f;
  };
  static Scalar of_int(int64_t v);
  static Scalar of_float(double v);
  static Scalar of_bool(bool v);
  int64_t as_int() const;  // truncates a float towards zero
  double as_float() const;
  bool as_bool() const;
  bool operator==(const Scalar& other) const;  // kind and bits, so that -0.0 and NaN are told apart
};

// clang-format off
enum class ExprOp : uint8_t {
  kConst, kSymbol,
  kAdd, kMul, kFloorDiv, kMod, kCeilDiv, kMin, kMax, kPow, kShiftLeft, kShiftRight, kBitAnd, kBitOr, kBitXor,
  kTrueDiv, kNeg, kAbs, kFloor, kCeil, kTrunc, kRound, kSqrt, kExp, kLog, kLog2, kSin, kCos, kTan, kTanh,
  kToFloat, kToInt,
  kEq, kNe, kLt, kLe, kAnd, kOr, kNot, kWhere,
};
// clang-format on

// Expressions nest at most this deep and have at most this many parts, so that walking over one is always safe. Sums
// and products are flat and count as one level.
inline constexpr int kMaxExprDepth = 200;
inline constexpr int64_t kMaxExprSize = 100'000;

struct ExprNode;

class Expr {
 public:
  Expr() = default;     // the integer 0
  Expr(int64_t value);  // NOLINT: sizes are written as plain integers everywhere
  static Expr constant(Scalar value);
  // `name` is [A-Za-z_][A-Za-z0-9_.]* and none of true, false, inf, nan, none.
  static Expr symbol(std::string name, ScalarKind kind = ScalarKind::kInt);
  // Builds and normalises `op` over `args`. UserError if the number or the kinds of arguments do not fit the operator,
  // if a coefficient overflows or if the result is too deep or too large. A constant division by zero is kept, and
  // fails at evaluation.
  static Expr make(ExprOp op, std::vector<Expr> args);

  bool is_constant() const { return node_ == nullptr; }
  Scalar value() const;  // requires is_constant()
  // The value if this is an integer constant, else nothing; `is_int(1)` asks for one value.
  std::optional<int64_t> as_int() const { return is_int_constant() ? std::optional(constant_.i) : std::nullopt; }
  bool is_int(int64_t v) const { return is_int_constant() && constant_.i == v; }

  ScalarKind kind() const;
  ExprOp op() const;
  const std::string& symbol_name() const;  // requires op() == kSymbol
  std::span<const Expr> args() const;

  bool operator==(const Expr& other) const;  // structural, after normalisation
  size_t hash() const;

  // Text form: s0, 4*s0 + 1, floordiv(s0, 2), max(s0, 8), eq(s0, 4), 1.5, true. Round-trips through parse_expr.
  std::string str() const;

 private:
  explicit Expr(std::shared_ptr<const ExprNode> node);
  bool is_int_constant() const { return node_ == nullptr && constant_.kind == ScalarKind::kInt; }
  std::shared_ptr<const ExprNode> node_;
  Scalar constant_{};
  friend struct ExprNode;
};

struct ExprHash {
  size_t operator()(const Expr& e) const { return e.hash(); }
};

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);

// Parses the text form; `kind_of` gives the kind of a symbol. UserError with the position on malformed text, on unknown
// functions and on nesting deeper than kMaxExprDepth.
Expr parse_expr(std::string_view text, const std::function<ScalarKind(std::string_view)>& kind_of);

// Value of an expression. UserError on overflow, division by zero or an unknown symbol (`lookup` decides and throws).
// `and`, `or` and `where` evaluate only the arguments that decide the result.
Scalar evaluate(const Expr& e, const std::function<Scalar(const std::string&)>& lookup);

// Appends the names of the symbols in `e` that `out` does not hold yet, in order of first appearance.
void collect_symbols(const Expr& e, std::vector<std::string>& out);
// `e` with each symbol replaced by what `lookup` returns for it.
Expr substitute(const Expr& e, const std::function<Expr(const Expr& symbol)>& lookup);

// Signs of expressions, proven from the signs of their symbols alone.

// Whether integer `e` is certain to be at least 0 if no symbol is negative. False means "cannot tell".
bool is_nonnegative(const Expr& e);

}  // namespace npugraph
