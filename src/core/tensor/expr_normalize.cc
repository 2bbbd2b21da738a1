// SPDX-License-Identifier: Apache-2.0
// Normalisation: one function for each operator that has rules, dispatched by normalize() at the end.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "tensor/expr_node.h"
#include "tensor/polynomial.h"

namespace npugraph {
namespace {

using Args = std::vector<Expr>;

// Products of sums with more terms than this are not expanded, so that an expression stays small.
constexpr size_t kMaxExpandedTerms = 64;
constexpr int64_t kMaxExpandedPower = 16;

Expr node(ExprOp op, ScalarKind kind, Args args) { return ExprNode::create(op, kind, std::move(args)); }
Expr int_node(ExprOp op, Args args) { return node(op, ScalarKind::kInt, std::move(args)); }

Expr constant_of(const Args& args, ExprOp op, ScalarKind kind) {
  std::vector<Scalar> values;
  values.reserve(args.size());
  for (const Expr& arg : args) values.push_back(arg.value());
  Applied result = apply_op(op, values);
  return result.error ? node(op, kind, args) : Expr::constant(result.value);
}

void sort(Args& args) {
  std::sort(args.begin(), args.end(), [](const Expr& a, const Expr& b) { return compare(a, b) < 0; });
}

// Removes repeated arguments, keeping the first of each.
void remove_repeated(Args& args) {
  Args kept;
  for (Expr& arg : args)
    if (std::find(kept.begin(), kept.end(), arg) == kept.end()) kept.push_back(std::move(arg));
  args = std::move(kept);
}

// Replaces arguments that are nodes of `op` by their own arguments.
void flatten(ExprOp op, Args& args) {
  Args flat;
  for (Expr& arg : args) {
    if (arg.op() == op)
      flat.insert(flat.end(), arg.args().begin(), arg.args().end());
    else
      flat.push_back(std::move(arg));
  }
  args = std::move(flat);
}

// Floating-point sums and products: evaluated from left to right, so only leading constants may be folded.
Expr float_chain(ExprOp op, Args args) {
  if (args[0].op() == op) {
    Args flat(args[0].args().begin(), args[0].args().end());
    flat.insert(flat.end(), args.begin() + 1, args.end());
    args = std::move(flat);
  }
  while (args.size() > 1 && args[0].is_constant() && args[1].is_constant()) {
    args[1] = constant_of({args[0], args[1]}, op, ScalarKind::kFloat);
    args.erase(args.begin());
  }
  return args.size() == 1 ? args[0] : node(op, ScalarKind::kFloat, std::move(args));
}

Expr int_sum(const Args& args) {
  Polynomial sum;
  for (const Expr& arg : args) sum = add(sum, to_polynomial(arg));
  return from_polynomial(std::move(sum));
}

Expr int_product(const Expr& a, const Expr& b) {
  if (a.is_int(0) || b.is_int(1)) return a;
  if (b.is_int(0) || a.is_int(1)) return b;
  Polynomial x = to_polynomial(a);
  Polynomial y = to_polynomial(b);
  if (x.size() > 1 && y.size() > 1 && x.size() * y.size() > kMaxExpandedTerms) {
    Args factors = {a, b};
    sort(factors);
    return int_node(ExprOp::kMul, std::move(factors));
  }
  std::optional<Polynomial> product = multiply(x, y);
  if (!product) throw UserError(cat("a coefficient of (", a.str(), ") * (", b.str(), ") does not fit 64 bits"));
  return from_polynomial(std::move(*product));
}

Expr int_product(const Args& args) {
  Expr product = 1;
  for (const Expr& arg : args) product = int_product(product, arg);
  return product;
}

Expr negative(const Expr& e) { return int_product(-1, e); }

bool is_negative_constant(const Expr& e) { return e.as_int() && *e.as_int() < 0; }

// Divisors for which a division stays as it is: 0, and the integer whose negation overflows.
bool has_no_rules(const Expr& divisor) { return divisor.is_int(0) || divisor.is_int(INT64_MIN); }

int64_t floor_div(int64_t a, int64_t positive) { return a / positive - (a % positive < 0 ? 1 : 0); }
int64_t floor_mod(int64_t a, int64_t positive) { return a - floor_div(a, positive) * positive; }

// A dividend over a single-term divisor, split into the exact quotient of some terms and the rest.
struct Division {
  Polynomial quotient;
  Polynomial rest;
};

// For a constant divisor the rest of the constant term is in [0, divisor).
Division split_exact(const Polynomial& dividend, const Term& divisor) {
  Division out;
  for (const Term& term : dividend) {
    std::optional<Term> exact = divide(term, divisor);
    if (exact) {
      out.quotient.push_back(std::move(*exact));
    } else if (term.factors.empty() && divisor.factors.empty() && divisor.coefficient > 0) {
      const int64_t quotient = floor_div(term.coefficient, divisor.coefficient);
      if (quotient != 0) out.quotient.push_back({quotient, {}});
      out.rest.push_back({floor_mod(term.coefficient, divisor.coefficient), {}});
    } else {
      out.rest.push_back(term);
    }
  }
  return out;
}

// The greatest common divisor of `of` and the coefficients of the terms with factors (if `all`, also of the constant).
int64_t common_coefficient(const Polynomial& p, int64_t of, bool all) {
  auto magnitude = [](int64_t v) { return v == INT64_MIN ? 1 : v < 0 ? -v : v; };
  int64_t common = magnitude(of);
  for (const Term& term : p)
    if (all || !term.factors.empty()) common = std::gcd(common, magnitude(term.coefficient));
  return common;
}

// Divides coefficients by `common`, the constant rounded down; drops terms that become 0.
void reduce(Polynomial& p, int64_t common) {
  for (Term& term : p) term.coefficient = floor_div(term.coefficient, common);
  std::erase_if(p, [](const Term& term) { return term.coefficient == 0; });
}

bool erase_factor(std::vector<Expr>& factors, const Expr& factor) {
  auto found = std::find(factors.begin(), factors.end(), factor);
  if (found == factors.end()) return false;
  factors.erase(found);
  return true;
}

// Cancels factors that every term of `p` shares with `divisor`; false if there is none.
bool cancel_factors(Polynomial& p, Term& divisor) {
  const std::vector<Expr> candidates = divisor.factors;
  for (const Expr& factor : candidates) {
    Polynomial reduced = p;
    if (!std::all_of(reduced.begin(), reduced.end(), [&](Term& term) { return erase_factor(term.factors, factor); }))
      continue;
    p = std::move(reduced);
    erase_factor(divisor.factors, factor);
  }
  return divisor.factors.size() != candidates.size();
}

// floordiv(floordiv(y, a) + c, b) as floordiv(y + a*c, a*b), for a > 0 and b > 0; else nullopt.
std::optional<Expr> merged_floordiv(const Polynomial& x, const Expr& d) {
  const int64_t constant = x.size() == 2 && x.back().factors.empty() ? x.back().coefficient : 0;
  const Term& inner = x.front();
  if (x.size() != (constant == 0 ? 1 : 2) || inner.coefficient != 1 || inner.factors.size() != 1) return std::nullopt;
  const Expr& quotient = inner.factors.front();
  if (quotient.op() != ExprOp::kFloorDiv || d.as_int().value_or(0) <= 0) return std::nullopt;
  const int64_t a = quotient.args()[1].as_int().value_or(0);
  int64_t divisor = 0, added = 0;
  if (a <= 0 || __builtin_mul_overflow(*d.as_int(), a, &divisor) || __builtin_mul_overflow(a, constant, &added))
    return std::nullopt;
  return Expr::make(ExprOp::kFloorDiv, {quotient.args()[0] + Expr(added), divisor});
}

// floordiv(x, d) where nothing more can be split off.
Expr floordiv_node(const Polynomial& x, const Expr& d) {
  const auto merged = merged_floordiv(x, d);
  return merged ? *merged : int_node(ExprOp::kFloorDiv, {from_polynomial(x), d});
}

Expr int_floordiv(const Expr& a, const Expr& b) {
  if (has_no_rules(b)) return int_node(ExprOp::kFloorDiv, {a, b});
  if (is_negative_constant(b)) return int_floordiv(negative(a), negative(b));
  Polynomial dividend = to_polynomial(a);
  Polynomial divisor = to_polynomial(b);
  if (divisor.size() > 1) {
    std::optional<Polynomial> quotient = divide(dividend, divisor);
    return quotient ? from_polynomial(std::move(*quotient)) : int_node(ExprOp::kFloorDiv, {a, b});
  }
  Term d = divisor[0];
  auto [quotient, rest] = split_exact(dividend, d);
  if (rest.empty()) return from_polynomial(std::move(quotient));
  // With a positive constant divisor the constant may be rounded down with the rest; else it must divide too.
  const bool constant_divisor = d.factors.empty();
  const int64_t common = common_coefficient(rest, d.coefficient, !constant_divisor);
  if (common > 1) {
    reduce(rest, common);
    d.coefficient /= common;
  }
  const bool reduced = cancel_factors(rest, d) || common > 1;
  Expr y = from_polynomial({std::move(d)});
  // A reduced dividend or divisor may have become constant, or divide further.
  Expr inner = reduced ? Expr::make(ExprOp::kFloorDiv, {from_polynomial(std::move(rest)), y}) : floordiv_node(rest, y);
  return int_sum({from_polynomial(std::move(quotient)), inner});
}

// mod(p, divisor) for a constant divisor > 0: takes coefficients modulo the divisor, and moves their greatest common
// divisor out of the mod.
Expr mod_by_constant(Polynomial p, int64_t divisor) {
  for (Term& term : p) term.coefficient = floor_mod(term.coefficient, divisor);
  std::erase_if(p, [](const Term& term) { return term.coefficient == 0; });
  if (p.empty() || p[0].factors.empty()) return from_polynomial(std::move(p));
  const int64_t common = common_coefficient(p, divisor, false);
  const int64_t constant = p.back().factors.empty() ? p.back().coefficient : 0;
  reduce(p, common);
  Expr inner = int_node(ExprOp::kMod, {from_polynomial(std::move(p)), divisor / common});
  return int_sum({int_product(common, inner), constant % common});
}

Expr int_mod(const Expr& a, const Expr& b) {
  if (has_no_rules(b)) return int_node(ExprOp::kMod, {a, b});
  if (is_negative_constant(b)) return negative(int_mod(negative(a), negative(b)));
  Polynomial dividend = to_polynomial(a);
  Polynomial divisor = to_polynomial(b);
  if (divisor.size() > 1) return divide(dividend, divisor) ? Expr(0) : int_node(ExprOp::kMod, {a, b});
  const Term& d = divisor[0];
  if (d.factors.empty() && d.coefficient > 0) return mod_by_constant(std::move(dividend), d.coefficient);
  Polynomial rest = split_exact(dividend, d).rest;
  return rest.empty() ? Expr(0) : int_node(ExprOp::kMod, {from_polynomial(std::move(rest)), b});
}

// ceildiv(a, b) is floordiv(a + b - 1, b) for a constant b > 0, the form in which programs write it by hand.
Expr int_ceildiv(const Expr& a, const Expr& b) {
  if (b.as_int() && *b.as_int() > 0) return int_floordiv(int_sum({a, *b.as_int() - 1}), b);
  if (b.is_int(0)) return int_node(ExprOp::kCeilDiv, {a, b});
  std::optional<Polynomial> exact = divide(to_polynomial(a), to_polynomial(b));
  return exact ? from_polynomial(std::move(*exact)) : int_node(ExprOp::kCeilDiv, {a, b});
}

Expr int_min_max(ExprOp op, Args args) {
  flatten(op, args);
  Args kept;
  for (Expr& arg : args) {
    auto decided =
        std::find_if(kept.begin(), kept.end(), [&](const Expr& e) { return known_order(arg, e).has_value(); });
    if (decided == kept.end()) {
      kept.push_back(std::move(arg));
      continue;
    }
    const bool smaller = *known_order(arg, *decided) < 0;
    if (smaller == (op == ExprOp::kMin)) *decided = std::move(arg);
  }
  sort(kept);
  return kept.size() == 1 ? kept[0] : int_node(op, std::move(kept));
}

Expr float_min_max(ExprOp op, Args args) {
  remove_repeated(args);
  return args.size() == 1 ? args[0] : node(op, ScalarKind::kFloat, std::move(args));
}

Expr int_pow(const Expr& base, const Expr& exponent) {
  std::optional<int64_t> n = exponent.as_int();
  if (!n || *n < 0 || *n > kMaxExpandedPower) return int_node(ExprOp::kPow, {base, exponent});
  return int_product(Args(static_cast<size_t>(*n), base));
}

Expr shift(ExprOp op, const Expr& a, const Expr& amount) {
  std::optional<int64_t> n = amount.as_int();
  if (!n || *n < 0 || *n > 62) return int_node(op, {a, amount});
  const Expr power = int64_t{1} << *n;
  return op == ExprOp::kShiftLeft ? int_product(a, power) : int_floordiv(a, power);
}

Expr bitwise(ExprOp op, ScalarKind kind, Args args) {
  if (args[0] == args[1]) {
    if (op != ExprOp::kBitXor) return args[0];
    return kind == ScalarKind::kBool ? Expr::constant(Scalar::of_bool(false)) : Expr(0);
  }
  sort(args);
  return node(op, kind, std::move(args));
}

Expr bool_constant(bool value) { return Expr::constant(Scalar::of_bool(value)); }

Expr comparison(ExprOp op, Args args) {
  const ScalarKind kind = args[0].kind();
  // A float may be NaN, which differs from itself.
  if (kind == ScalarKind::kInt) {
    if (auto order = known_order(args[0], args[1])) return bool_constant(apply_order(op, *order));
  } else if (kind == ScalarKind::kBool && args[0] == args[1]) {
    return bool_constant(apply_order(op, std::strong_ordering::equal));
  }
  if (op == ExprOp::kEq || op == ExprOp::kNe) sort(args);
  return node(op, ScalarKind::kBool, std::move(args));
}

// Keeps the order of arguments: evaluation stops at the first that decides.
Expr and_or(ExprOp op, Args args) {
  flatten(op, args);
  const bool neutral = op == ExprOp::kAnd;
  if (std::find(args.begin(), args.end(), bool_constant(!neutral)) != args.end()) return bool_constant(!neutral);
  std::erase(args, bool_constant(neutral));
  remove_repeated(args);
  if (args.empty()) return bool_constant(neutral);
  return args.size() == 1 ? args[0] : node(op, ScalarKind::kBool, std::move(args));
}

Expr negation(const Expr& e) {
  const std::span<const Expr> args = e.args();
  switch (e.op()) {
    case ExprOp::kNot: return args[0];
    case ExprOp::kEq: return node(ExprOp::kNe, ScalarKind::kBool, {args[0], args[1]});
    case ExprOp::kNe: return node(ExprOp::kEq, ScalarKind::kBool, {args[0], args[1]});
    default: break;
  }
  // Not for floats: with a NaN both lt(a, b) and le(b, a) are false.
  const bool ordered = !args.empty() && args[0].kind() != ScalarKind::kFloat;
  if (ordered && e.op() == ExprOp::kLt) return node(ExprOp::kLe, ScalarKind::kBool, {args[1], args[0]});
  if (ordered && e.op() == ExprOp::kLe) return node(ExprOp::kLt, ScalarKind::kBool, {args[1], args[0]});
  return node(ExprOp::kNot, ScalarKind::kBool, {e});
}

Expr where(ScalarKind kind, Args args) {
  if (args[0].is_constant()) return args[0].value().as_bool() ? args[1] : args[2];
  if (args[1] == args[2]) return args[1];
  return node(ExprOp::kWhere, kind, std::move(args));
}

Expr negated_float(const Expr& e) {
  return e.op() == ExprOp::kNeg ? e.args()[0] : node(ExprOp::kNeg, ScalarKind::kFloat, {e});
}

Expr normalize_int(ExprOp op, Args args) {
  switch (op) {
    case ExprOp::kAdd: return int_sum(args);
    case ExprOp::kMul: return int_product(args);
    case ExprOp::kFloorDiv: return int_floordiv(args[0], args[1]);
    case ExprOp::kMod: return int_mod(args[0], args[1]);
    case ExprOp::kCeilDiv: return int_ceildiv(args[0], args[1]);
    case ExprOp::kMin:
    case ExprOp::kMax: return int_min_max(op, std::move(args));
    case ExprOp::kPow: return int_pow(args[0], args[1]);
    case ExprOp::kShiftLeft:
    case ExprOp::kShiftRight: return shift(op, args[0], args[1]);
    case ExprOp::kNeg: return negative(args[0]);
    default: return int_node(op, std::move(args));
  }
}

Expr normalize_float(ExprOp op, Args args) {
  switch (op) {
    case ExprOp::kAdd:
    case ExprOp::kMul: return float_chain(op, std::move(args));
    case ExprOp::kMin:
    case ExprOp::kMax: return float_min_max(op, std::move(args));
    case ExprOp::kNeg: return negated_float(args[0]);
    default: return node(op, ScalarKind::kFloat, std::move(args));
  }
}

// Whether `op` converts or rounds a value that already has the kind of the result.
bool is_identity(ExprOp op, const Expr& arg) {
  switch (op) {
    case ExprOp::kToFloat: return arg.kind() == ScalarKind::kFloat;
    case ExprOp::kToInt:
    case ExprOp::kFloor:
    case ExprOp::kCeil:
    case ExprOp::kTrunc:
    case ExprOp::kRound: return arg.kind() == ScalarKind::kInt;
    default: return false;
  }
}

}  // namespace

Expr normalize(ExprOp op, ScalarKind kind, std::vector<Expr> args) {
  if (op == ExprOp::kAnd || op == ExprOp::kOr) return and_or(op, std::move(args));
  if (op == ExprOp::kWhere) return where(kind, std::move(args));
  if (args.size() == 1 && is_identity(op, args[0])) return args[0];
  const bool foldable = op != ExprOp::kAdd && op != ExprOp::kMul;
  if (foldable && std::all_of(args.begin(), args.end(), [](const Expr& e) { return e.is_constant(); }))
    return constant_of(args, op, kind);
  switch (op) {
    case ExprOp::kBitAnd:
    case ExprOp::kBitOr:
    case ExprOp::kBitXor: return bitwise(op, kind, std::move(args));
    case ExprOp::kEq:
    case ExprOp::kNe:
    case ExprOp::kLt:
    case ExprOp::kLe: return comparison(op, std::move(args));
    case ExprOp::kNot: return negation(args[0]);
    default: break;
  }
  return kind == ScalarKind::kFloat ? normalize_float(op, std::move(args)) : normalize_int(op, std::move(args));
}

Expr operator+(const Expr& a, const Expr& b) {
  int64_t sum = 0;
  if (a.as_int() && b.as_int() && !__builtin_add_overflow(*a.as_int(), *b.as_int(), &sum)) return sum;
  return Expr::make(ExprOp::kAdd, {a, b});
}

Expr operator-(const Expr& a, const Expr& b) { return a + Expr::make(ExprOp::kNeg, {b}); }

Expr operator*(const Expr& a, const Expr& b) {
  int64_t product = 0;
  if (a.as_int() && b.as_int() && !__builtin_mul_overflow(*a.as_int(), *b.as_int(), &product)) return product;
  return Expr::make(ExprOp::kMul, {a, b});
}

}  // namespace npugraph
