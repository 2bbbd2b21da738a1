// SPDX-License-Identifier: Apache-2.0
#include "ir/bounds.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace npugraph::ir {
namespace {

// Inclusive bounds; nullopt means unbounded. Arithmetic that overflows gives unbounded.
struct Interval {
  std::optional<int64_t> low;
  std::optional<int64_t> high;
};

std::optional<int64_t> add(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

std::optional<int64_t> multiply(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t product = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

// Exact for a constant factor and for non-negative factors, as in sizes and strides; otherwise unbounded.
Interval multiply(const Interval& a, const Interval& b) {
  const auto scale = [](int64_t factor, const Interval& by) {
    return factor >= 0 ? Interval{multiply(factor, by.low), multiply(factor, by.high)}
                       : Interval{multiply(factor, by.high), multiply(factor, by.low)};
  };
  if (a.low && a.low == a.high) return scale(*a.low, b);
  if (b.low && b.low == b.high) return scale(*b.low, a);
  if (a.low >= int64_t{0} && b.low >= int64_t{0}) return {multiply(a.low, b.low), multiply(a.high, b.high)};
  return {};
}

// floor(a / b) for a not negative and b positive; otherwise unbounded.
Interval floor_divide(const Interval& a, const Interval& b) {
  if (!(a.low >= int64_t{0}) || !(b.low >= int64_t{1})) return {};
  Interval quotient{0, std::nullopt};
  if (b.high) quotient.low = *a.low / *b.high;
  if (a.high) quotient.high = *a.high / *b.low;
  return quotient;
}

Interval minimum(const Interval& a, const Interval& b) {
  Interval result;
  if (a.low && b.low) result.low = std::min(*a.low, *b.low);
  result.high = a.high && b.high ? std::min(*a.high, *b.high) : (a.high ? a.high : b.high);
  return result;
}

Interval negate(const Interval& a) { return multiply({-1, -1}, a); }

Interval symbol_bounds(const Expr& e, const std::vector<Symbol>& symbols) {
  const auto symbol =
      std::find_if(symbols.begin(), symbols.end(), [&](const Symbol& s) { return s.name == e.symbol_name(); });
  Interval bounds;
  if (symbol == symbols.end()) return bounds;
  if (symbol->min != INT64_MIN) bounds.low = symbol->min;
  if (symbol->max != INT64_MAX) bounds.high = symbol->max;
  return bounds;
}

Interval bounds_of(const Expr& e, const std::vector<Symbol>& symbols) {
  if (e.kind() != ScalarKind::kInt) return {};
  if (const auto value = e.as_int()) return {value, value};
  if (e.op() == ExprOp::kSymbol) return symbol_bounds(e, symbols);
  Interval result = bounds_of(e.args().front(), symbols);
  for (const Expr& arg : e.args().subspan(1)) {
    const Interval next = bounds_of(arg, symbols);
    switch (e.op()) {
      case ExprOp::kAdd: result = {add(result.low, next.low), add(result.high, next.high)}; break;
      case ExprOp::kMul: result = multiply(result, next); break;
      case ExprOp::kFloorDiv: result = floor_divide(result, next); break;
      case ExprOp::kMin: result = minimum(result, next); break;
      case ExprOp::kMax: result = negate(minimum(negate(result), negate(next))); break;
      default: return {};
    }
  }
  return e.args().size() > 1 ? result : Interval{};
}

// -count * floor(dividend / divisor), with positive constants.
struct TakenQuotient {
  int64_t count;
  Expr dividend;
  int64_t divisor;
};

std::optional<TakenQuotient> taken_quotient(const Expr& term) {
  constexpr int64_t kMost = 1 << 20;  // so that products do not overflow
  if (term.is_constant() || term.op() != ExprOp::kMul || term.args().size() != 2) return std::nullopt;
  const bool constant_first = term.args()[0].is_constant();
  const auto count = term.args()[constant_first ? 0 : 1].as_int();
  const Expr& quotient = term.args()[constant_first ? 1 : 0];
  if (!count || *count >= 0 || *count < -kMost) return std::nullopt;
  if (quotient.is_constant() || quotient.op() != ExprOp::kFloorDiv) return std::nullopt;
  const auto divisor = quotient.args()[1].as_int();
  if (!divisor || *divisor < 1 || *divisor > kMost) return std::nullopt;
  return TakenQuotient{-*count, quotient.args()[0], *divisor};
}

}  // namespace

bool is_nonnegative(const Expr& e, const std::vector<Symbol>& symbols) {
  if (bounds_of(e, symbols).low >= int64_t{0}) return true;
  if (e.kind() != ScalarKind::kInt || e.is_constant() || e.op() != ExprOp::kAdd) return false;
  // A quotient is at most the exact one: x - c * floor(a / k) is at least (k * x - c * a) / k.
  for (const Expr& term : e.args()) {
    const auto taken = taken_quotient(term);
    if (!taken) continue;
    try {
      if (is_nonnegative(Expr(taken->divisor) * (e - term) - Expr(taken->count) * taken->dividend, symbols))
        return true;
    } catch (const UserError&) {  // a coefficient overflows
    }
  }
  return false;
}

Expr simplify(const Expr& e, const std::vector<Symbol>& symbols) {
  if (e.is_constant() || e.op() == ExprOp::kSymbol) return e;
  std::vector<Expr> args;
  for (const Expr& arg : e.args()) args.push_back(simplify(arg, symbols));
  const bool picks_one = e.op() == ExprOp::kMin || e.op() == ExprOp::kMax;
  if (!picks_one || e.kind() != ScalarKind::kInt) return Expr::make(e.op(), std::move(args));
  std::vector<Expr> kept;
  for (Expr& arg : args) {
    // Whether `a` is the result rather than `b`, or they are equal.
    const auto wins = [&](const Expr& a, const Expr& b) {
      return is_nonnegative(e.op() == ExprOp::kMin ? b - a : a - b, symbols);
    };
    if (std::ranges::any_of(kept, [&](const Expr& other) { return wins(other, arg); })) continue;
    std::erase_if(kept, [&](const Expr& other) { return wins(arg, other); });
    kept.push_back(std::move(arg));
  }
  return kept.size() == 1 ? kept.front() : Expr::make(e.op(), std::move(kept));
}

Expr multiple_of(int64_t c, const Expr& symbol) { return Expr(c) * Expr::make(ExprOp::kFloorDiv, {symbol, Expr(c)}); }

bool tells(const Expr& size, const Expr& symbol) {
  if (size == symbol) return true;
  if (size.op() != ExprOp::kMul) return false;
  return std::ranges::any_of(size.args(), [&](const Expr& factor) {
    const auto c = factor.as_int();
    return c && size == multiple_of(*c, symbol);
  });
}

}  // namespace npugraph::ir
