// SPDX-License-Identifier: Apache-2.0
// The meaning of every operator on values, used for folding and for evaluation.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/expr_node.h"

namespace npugraph {
namespace {

constexpr const char* kOverflow = "integer overflow";
constexpr const char* kDivisionByZero = "division by zero";
constexpr const char* kNegativeExponent = "negative exponent of an integer power";
constexpr const char* kNegativeShift = "negative shift count";
constexpr const char* kNotAnInteger = "the number does not fit a 64-bit integer";

Applied fail(const char* error) { return {Scalar(), error}; }
Applied ok(int64_t v) { return {Scalar::of_int(v)}; }
Applied ok_float(double v) { return {Scalar::of_float(v)}; }
Applied ok_bool(bool v) { return {Scalar::of_bool(v)}; }

// Sums and products hold intermediate results in 128 bits, so that only the result decides about overflow.
using Wide = __int128;

Applied narrow(Wide v) {
  if (v < INT64_MIN || v > INT64_MAX) return fail(kOverflow);
  return ok(static_cast<int64_t>(v));
}

Applied sum(std::span<const Scalar> args) {
  Wide total = 0;
  for (Scalar arg : args) total += arg.i;
  return narrow(total);
}

Applied product(std::span<const Scalar> args) {
  if (std::any_of(args.begin(), args.end(), [](Scalar arg) { return arg.i == 0; })) return ok(0);
  constexpr Wide kLimit = Wide{1} << 63;
  Wide total = 1;
  for (Scalar arg : args) {
    total *= arg.i;
    if (total > kLimit || total < -kLimit) return fail(kOverflow);
  }
  return narrow(total);
}

Applied divide(ExprOp op, int64_t a, int64_t b) {
  if (b == 0) return fail(kDivisionByZero);
  if (b == -1) return op == ExprOp::kMod ? ok(0) : narrow(-Wide{a});
  const int64_t quotient = a / b;
  const int64_t remainder = a % b;
  const bool between = remainder != 0;                            // the quotient lies between two integers
  const bool below_zero = between && (remainder < 0) != (b < 0);  // so that truncation rounded it up
  switch (op) {
    case ExprOp::kFloorDiv: return ok(quotient - (below_zero ? 1 : 0));
    case ExprOp::kMod: return ok(remainder + (below_zero ? b : 0));
    default: return ok(quotient + (between && !below_zero ? 1 : 0));
  }
}

Applied power(int64_t base, int64_t exponent) {
  if (exponent < 0) return fail(kNegativeExponent);
  if (base == 0 || base == 1) return ok(exponent == 0 ? 1 : base);
  if (base == -1) return ok(exponent % 2 == 0 ? 1 : -1);
  if (exponent > 63) return fail(kOverflow);
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i)
    if (__builtin_mul_overflow(result, base, &result)) return fail(kOverflow);
  return ok(result);
}

Applied shift_left(int64_t a, int64_t count) {
  if (count < 0) return fail(kNegativeShift);
  if (a == 0) return ok(0);
  return count > 63 ? fail(kOverflow) : narrow(Wide{a} * (Wide{1} << count));
}

Applied shift_right(int64_t a, int64_t count) {
  if (count < 0) return fail(kNegativeShift);
  return ok(a >> std::min<int64_t>(count, 63));
}

Applied apply_int(ExprOp op, std::span<const Scalar> args) {
  const int64_t a = args.empty() ? 0 : args[0].i;
  const int64_t b = args.size() > 1 ? args[1].i : 0;
  const auto less = [](Scalar x, Scalar y) { return x.i < y.i; };
  switch (op) {
    case ExprOp::kAdd: return sum(args);
    case ExprOp::kMul: return product(args);
    case ExprOp::kFloorDiv:
    case ExprOp::kMod:
    case ExprOp::kCeilDiv: return divide(op, a, b);
    case ExprOp::kMin: return {*std::min_element(args.begin(), args.end(), less)};
    case ExprOp::kMax: return {*std::max_element(args.begin(), args.end(), less)};
    case ExprOp::kPow: return power(a, b);
    case ExprOp::kShiftLeft: return shift_left(a, b);
    case ExprOp::kShiftRight: return shift_right(a, b);
    case ExprOp::kNeg: return narrow(-Wide{a});
    case ExprOp::kAbs: return narrow(a < 0 ? -Wide{a} : Wide{a});
    default: NG_CHECK(false, info_of(op).name, " on integers");
  }
}

// divmod of Python: the remainder has the sign of the divisor.
Applied divide(ExprOp op, double a, double b) {
  if (b == 0) return fail(kDivisionByZero);
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    remainder += b;
    quotient -= 1;
  } else if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  }
  if (op == ExprOp::kMod) return ok_float(remainder);
  if (quotient == 0) return ok_float(std::copysign(0.0, a / b));
  const double floored = std::floor(quotient);
  return ok_float(quotient - floored > 0.5 ? floored + 1 : floored);
}

// The first of the smallest (largest) arguments in the order of `<`, as min() and max() of Python.
double select(std::span<const Scalar> args, bool (*better)(double, double)) {
  double best = args[0].f;
  for (Scalar arg : args.subspan(1))
    if (better(arg.f, best)) best = arg.f;
  return best;
}

Applied apply_float(ExprOp op, std::span<const Scalar> args) {
  const double a = args.empty() ? 0 : args[0].f;
  const double b = args.size() > 1 ? args[1].f : 0;
  switch (op) {
    case ExprOp::kAdd: {
      double total = a;
      for (Scalar arg : args.subspan(1)) total += arg.f;
      return ok_float(total);
    }
    case ExprOp::kMul: {
      double total = a;
      for (Scalar arg : args.subspan(1)) total *= arg.f;
      return ok_float(total);
    }
    case ExprOp::kFloorDiv:
    case ExprOp::kMod: return divide(op, a, b);
    case ExprOp::kTrueDiv: return b == 0 ? fail(kDivisionByZero) : ok_float(a / b);
    case ExprOp::kMin: return ok_float(select(args, [](double x, double y) { return x < y; }));
    case ExprOp::kMax: return ok_float(select(args, [](double x, double y) { return x > y; }));
    case ExprOp::kPow: return ok_float(std::pow(a, b));
    case ExprOp::kNeg: return ok_float(-a);
    case ExprOp::kAbs: return ok_float(std::fabs(a));
    case ExprOp::kSqrt: return ok_float(std::sqrt(a));
    case ExprOp::kExp: return ok_float(std::exp(a));
    case ExprOp::kLog: return ok_float(std::log(a));
    case ExprOp::kLog2: return ok_float(std::log2(a));
    case ExprOp::kSin: return ok_float(std::sin(a));
    case ExprOp::kCos: return ok_float(std::cos(a));
    case ExprOp::kTan: return ok_float(std::tan(a));
    case ExprOp::kTanh: return ok_float(std::tanh(a));
    default: NG_CHECK(false, info_of(op).name, " on floats");
  }
}

double round_to(ExprOp op, double v) {
  switch (op) {
    case ExprOp::kFloor: return std::floor(v);
    case ExprOp::kCeil: return std::ceil(v);
    case ExprOp::kRound: return v - std::remainder(v, 1.0);  // half to even, whatever the rounding mode
    default: return std::trunc(v);
  }
}

Applied to_integer(ExprOp op, Scalar arg) {
  if (arg.kind != ScalarKind::kFloat) return ok(arg.i);
  const double rounded = round_to(op, arg.f);
  // False for NaN. The bounds are exact in double.
  if (!(rounded >= -0x1p63 && rounded < 0x1p63)) return fail(kNotAnInteger);
  return ok(static_cast<int64_t>(rounded));
}

Applied bits(ExprOp op, Scalar a, Scalar b) {
  const int64_t value = op == ExprOp::kBitAnd ? a.i & b.i : op == ExprOp::kBitOr ? a.i | b.i : a.i ^ b.i;
  return a.kind == ScalarKind::kBool ? ok_bool(value != 0) : ok(value);
}

using Lookup = std::function<Scalar(const std::string&)>;

Scalar evaluate_node(const Expr& e, const Lookup& lookup);

// Evaluates the arguments of `and` or `or` up to the first that decides the result.
Scalar evaluate_until(const Expr& e, bool decisive, const Lookup& lookup) {
  for (const Expr& arg : e.args())
    if (evaluate_node(arg, lookup).as_bool() == decisive) return Scalar::of_bool(decisive);
  return Scalar::of_bool(!decisive);
}

Scalar evaluate_node(const Expr& e, const Lookup& lookup) {
  const std::span<const Expr> args = e.args();
  switch (e.op()) {
    case ExprOp::kConst: return e.value();
    case ExprOp::kSymbol: {
      Scalar value = lookup(e.symbol_name());
      if (value.kind != e.kind()) throw UserError(cat("the value of symbol ", e.symbol_name(), " has the wrong kind"));
      return value;
    }
    case ExprOp::kAnd: return evaluate_until(e, false, lookup);
    case ExprOp::kOr: return evaluate_until(e, true, lookup);
    case ExprOp::kWhere: return evaluate_node(args[evaluate_node(args[0], lookup).as_bool() ? 1 : 2], lookup);
    default: break;
  }
  constexpr size_t kInline = 8;
  Scalar inline_values[kInline];
  std::vector<Scalar> heap_values(args.size() > kInline ? args.size() : 0);
  Scalar* values = args.size() > kInline ? heap_values.data() : inline_values;
  for (size_t i = 0; i < args.size(); ++i) values[i] = evaluate_node(args[i], lookup);
  Applied result = apply_op(e.op(), {values, args.size()});
  if (result.error) throw UserError(cat(result.error, " in ", e.str()));
  return result.value;
}

}  // namespace

bool apply_order(ExprOp op, std::partial_ordering order) {
  switch (op) {
    case ExprOp::kEq: return order == 0;
    case ExprOp::kNe: return order != 0;
    case ExprOp::kLt: return order < 0;
    case ExprOp::kLe: return order <= 0;
    default: NG_CHECK(false, info_of(op).name, " is no comparison");
  }
}

Applied apply_op(ExprOp op, std::span<const Scalar> args) {
  switch (op) {
    case ExprOp::kEq:
    case ExprOp::kNe:
    case ExprOp::kLt:
    case ExprOp::kLe:
      return ok_bool(args[0].kind == ScalarKind::kFloat ? apply_order(op, args[0].f <=> args[1].f)
                                                        : apply_order(op, args[0].i <=> args[1].i));
    case ExprOp::kNot: return ok_bool(!args[0].as_bool());
    case ExprOp::kBitAnd:
    case ExprOp::kBitOr:
    case ExprOp::kBitXor: return bits(op, args[0], args[1]);
    case ExprOp::kToFloat: return ok_float(args[0].as_float());
    case ExprOp::kFloor:
    case ExprOp::kCeil:
    case ExprOp::kTrunc:
    case ExprOp::kRound:
    case ExprOp::kToInt: return to_integer(op, args[0]);
    default: break;
  }
  const bool is_float = !args.empty() && args[0].kind == ScalarKind::kFloat;
  return is_float ? apply_float(op, args) : apply_int(op, args);
}

Scalar evaluate(const Expr& e, const std::function<Scalar(const std::string&)>& lookup) {
  return evaluate_node(e, lookup);
}

}  // namespace npugraph
