// SPDX-License-Identifier: Apache-2.0
#include "loop/bounds.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"

namespace npugraph::loop {
namespace {

constexpr int kMaxDepth = 6;  // of nested proofs

std::vector<Expr> terms_of(const Expr& e) {
  if (e.op() == ExprOp::kAdd) return {e.args().begin(), e.args().end()};
  return {e};
}

std::vector<Expr> factors_of(const Expr& term) {
  if (term.op() == ExprOp::kMul) return {term.args().begin(), term.args().end()};
  return {term};
}

bool mentions(const Expr& e, const std::string& symbol) {
  std::vector<std::string> symbols;
  collect_symbols(e, symbols);
  return std::find(symbols.begin(), symbols.end(), symbol) != symbols.end();
}

bool is_symbol(const Expr& e, const std::string& name) { return e.op() == ExprOp::kSymbol && e.symbol_name() == name; }

// e == coefficient * variable + rest, with the variable in neither.
struct Linear {
  Expr coefficient;
  Expr rest;
};

std::optional<Linear> split(const Expr& e, const std::string& variable) {
  Linear out;
  for (const Expr& term : terms_of(e)) {
    if (!mentions(term, variable)) {
      out.rest = out.rest + term;
      continue;
    }
    Expr coefficient = 1;
    int times = 0;
    for (const Expr& factor : factors_of(term)) {
      if (is_symbol(factor, variable)) {
        ++times;
      } else if (mentions(factor, variable)) {
        return std::nullopt;
      } else {
        coefficient = coefficient * factor;
      }
    }
    if (times != 1) return std::nullopt;
    out.coefficient = out.coefficient + coefficient;
  }
  return out;
}

// Whether proofs do not look into `e`: they look only into sums, products, symbols and constants.
bool is_opaque(const Expr& e) {
  return e.op() != ExprOp::kAdd && e.op() != ExprOp::kMul && e.op() != ExprOp::kSymbol && e.op() != ExprOp::kConst;
}

int64_t constant_coefficient(const Expr& term) {
  if (const auto value = term.as_int()) return *value;
  if (term.op() != ExprOp::kMul) return 1;
  return term.args()[0].as_int().value_or(1);
}

}  // namespace

void Bounds::enter(const std::string& variable, const Expr& extent) { ranges_.push_back({variable, extent, {}}); }
void Bounds::leave() { ranges_.pop_back(); }

bool Bounds::is_nonnegative(const Expr& e) const {
  try {
    return prove(e, 0);
  } catch (const UserError&) {  // a coefficient overflows
    return false;
  }
}

// Replaces loop variables, from inside to outside, by the end of their range at which `e` is smaller.
bool Bounds::prove(Expr e, int depth) const {
  if (e.as_int()) return *e.as_int() >= 0;
  if (e.kind() != ScalarKind::kInt || depth > kMaxDepth) return false;
  std::vector<Range> ranges = ranges_;
  if (!replace_opaque(e, ranges, depth)) return false;
  while (!ranges.empty()) {
    const Range range = std::move(ranges.back());
    ranges.pop_back();
    if (!mentions(e, range.variable)) continue;
    const std::optional<Linear> linear = split(e, range.variable);
    if (!linear) return false;
    if (prove(linear->coefficient, depth + 1)) {
      e = linear->rest;
    } else if (prove(-1 * linear->coefficient, depth + 1)) {
      e = linear->rest + linear->coefficient * (range.extent - 1);
    } else {
      return false;
    }
    if (!replace_opaque(e, ranges, depth)) return false;
  }
  return prove_without_loops(e);
}

// An extent that is a symbol, or a multiple of one, makes that symbol at least 1.
bool Bounds::prove_without_loops(const Expr& e) const {
  std::vector<std::string> positive;
  for (const Range& range : ranges_) {
    const std::vector<Expr> factors = factors_of(range.extent);
    const bool multiple = factors.size() == 2 && factors[0].as_int() && *factors[0].as_int() > 0;
    if (factors.size() > 1 && !multiple) continue;
    if (factors.back().op() == ExprOp::kSymbol) positive.push_back(factors.back().symbol_name());
  }
  const auto is_positive = [&](const Expr& s) {
    return std::find(positive.begin(), positive.end(), s.symbol_name()) != positive.end();
  };
  const Expr shifted = substitute(e, [&](const Expr& s) { return is_positive(s) ? s + 1 : s; });
  const auto is_nonnegative_factor = [&](const Expr& factor) {
    if (const auto value = factor.as_int()) return *value >= 0;
    return factor.op() == ExprOp::kSymbol && is_positive(factor);
  };
  for (const Expr& term : terms_of(shifted)) {
    const std::vector<Expr> factors = factors_of(term);
    if (!std::all_of(factors.begin(), factors.end(), is_nonnegative_factor)) return false;
  }
  return true;
}

// Replaces opaque factors by variables with their known ranges. False if a range is not known.
bool Bounds::replace_opaque(Expr& e, std::vector<Range>& ranges, int depth) const {
  Expr sum;
  for (const Expr& term : terms_of(e)) {
    Expr product = 1;
    for (Expr factor : factors_of(term)) {
      if (is_opaque(factor)) {
        Expr end;
        const auto same = [&](const Range& range) { return range.stands_for == factor; };
        auto known = std::find_if(ranges.begin(), ranges.end(), same);
        if (known == ranges.end()) {
          if (!range_of_opaque(factor, end, depth)) return false;
          known = ranges.insert(known, {cat("_.opaque.", ranges.size()), end, factor});
        }
        factor = Expr::symbol(known->variable);
      }
      product = product * factor;
    }
    sum = sum + product;
  }
  e = sum;
  return true;
}

// Whether `e` is a division or remainder in [0, end), for the `end` that it sets.
bool Bounds::range_of_opaque(const Expr& e, Expr& end, int depth) const {
  if (e.op() != ExprOp::kMod && e.op() != ExprOp::kFloorDiv) return false;
  const Expr& dividend = e.args()[0];
  const Expr& divisor = e.args()[1];
  if (!prove(divisor - 1, depth + 1)) return false;
  end = e.op() == ExprOp::kMod ? divisor : dividend + 1;
  return e.op() == ExprOp::kMod || prove(dividend, depth + 1);
}

Expr Bounds::simplify(const Expr& e) const {
  if (e.is_constant() || e.op() == ExprOp::kSymbol) return e;
  std::vector<Expr> args;
  bool changed = false;
  for (const Expr& arg : e.args()) {
    args.push_back(simplify(arg));
    changed = changed || args.back() != arg;
  }
  const Expr made = changed ? Expr::make(e.op(), std::move(args)) : e;
  return made.is_constant() ? made : simplify_node(made);
}

Expr Bounds::simplify_node(const Expr& e) const {
  const auto args = e.args();
  switch (e.op()) {
    case ExprOp::kFloorDiv:
    case ExprOp::kMod: return simplify_division(e);
    case ExprOp::kMin:
    case ExprOp::kMax: return e.kind() == ScalarKind::kInt ? simplify_extreme(e) : e;
    case ExprOp::kLt:
    case ExprOp::kLe: {
      if (args[0].kind() != ScalarKind::kInt) return e;
      const Expr gap = args[1] - args[0];
      const Expr least = e.op() == ExprOp::kLt ? Expr(1) : Expr(0);
      if (is_nonnegative(gap - least)) return Expr::constant(Scalar::of_bool(true));
      return is_nonnegative(least - 1 - gap) ? Expr::constant(Scalar::of_bool(false)) : e;
    }
    default: return e;
  }
}

Expr Bounds::simplify_division(const Expr& e) const {
  const Expr& dividend = e.args()[0];
  const Expr& divisor = e.args()[1];
  const bool mod = e.op() == ExprOp::kMod;
  if (is_nonnegative(dividend) && is_nonnegative(divisor - 1 - dividend)) return mod ? dividend : Expr(0);
  if (mod || !divisor.as_int() || *divisor.as_int() < 2) return e;
  const Expr shorter = drop_below_common(dividend, *divisor.as_int());
  return shorter == dividend ? e : Expr::make(ExprOp::kFloorDiv, {shorter, divisor});
}

// floordiv(g*x + r, g*d) is floordiv(g*x, g*d) where r is in [0, g).
Expr Bounds::drop_below_common(const Expr& dividend, int64_t divisor) const {
  const std::vector<Expr> terms = terms_of(dividend);
  for (const Expr& chosen : terms) {
    const int64_t common = std::gcd(constant_coefficient(chosen), divisor);
    if (common < 2) continue;
    Expr kept;
    Expr rest;
    for (const Expr& term : terms) {
      Expr& part = constant_coefficient(term) % common == 0 ? kept : rest;
      part = part + term;
    }
    if (rest.is_int(0)) continue;
    if (is_nonnegative(rest) && is_nonnegative(common - 1 - rest)) return kept;
  }
  return dividend;
}

Expr Bounds::simplify_extreme(const Expr& e) const {
  std::vector<Expr> kept(e.args().begin(), e.args().end());
  const bool min = e.op() == ExprOp::kMin;
  for (size_t i = 0; i < kept.size() && kept.size() > 1;) {
    const auto decides = [&](const Expr& other) {
      return &other != &kept[i] && is_nonnegative(min ? kept[i] - other : other - kept[i]);
    };
    if (std::any_of(kept.begin(), kept.end(), decides)) {
      kept.erase(kept.begin() + static_cast<int64_t>(i));
    } else {
      ++i;
    }
  }
  return Expr::make(e.op(), std::move(kept));
}

}  // namespace npugraph::loop
