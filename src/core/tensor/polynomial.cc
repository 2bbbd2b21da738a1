// SPDX-License-Identifier: Apache-2.0
#include "tensor/polynomial.h"

#include <algorithm>

#include "tensor/expr_node.h"

namespace npugraph {
namespace {

bool is_monomial(const Expr& e) { return e.op() == ExprOp::kMul && !is_unexpanded(e); }

Term to_term(const Expr& e) {
  if (e.is_constant()) return {e.value().i, {}};
  if (!is_monomial(e)) return {1, {e}};
  std::span<const Expr> args = e.args();
  if (auto coefficient = args[0].as_int()) return {*coefficient, {args.begin() + 1, args.end()}};
  return {1, {args.begin(), args.end()}};
}

Expr from_term(Term term) {
  if (term.factors.empty()) return Expr(term.coefficient);
  if (term.coefficient != 1)
    term.factors.insert(term.factors.begin(), Expr(term.coefficient));
  else if (term.factors.size() == 1)
    return std::move(term.factors[0]);
  return ExprNode::create(ExprOp::kMul, ScalarKind::kInt, std::move(term.factors));
}

std::vector<Expr> merge_factors(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  std::vector<Expr> out;
  out.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out),
             [](const Expr& x, const Expr& y) { return compare(x, y) < 0; });
  return out;
}

// Merges terms with equal factors. `terms` is sorted.
void collect(Polynomial& terms) {
  size_t kept = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    Term& term = terms[i];
    int64_t sum = 0;
    if (kept > 0 && terms[kept - 1].factors == term.factors &&
        !__builtin_add_overflow(terms[kept - 1].coefficient, term.coefficient, &sum)) {
      term.coefficient = sum;
      --kept;
    }
    if (term.coefficient == 0) continue;
    if (kept != i) terms[kept] = std::move(term);
    ++kept;
  }
  terms.resize(kept);
}

// The terms with factors, and the constant.
struct Split {
  std::span<const Expr> terms;
  int64_t constant = 0;
};

Split split_constant(const Expr& e) {
  if (auto constant = e.as_int()) return {{}, *constant};
  if (e.op() != ExprOp::kAdd) return {{&e, 1}, 0};
  std::span<const Expr> args = e.args();
  if (auto constant = args.back().as_int()) return {args.first(args.size() - 1), *constant};
  return {args, 0};
}

}  // namespace

std::strong_ordering compare_factors(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (auto order = b.size() <=> a.size(); order != 0) return order;
  for (size_t i = 0; i < a.size(); ++i)
    if (auto order = compare(a[i], b[i]); order != 0) return order;
  return std::strong_ordering::equal;
}

Polynomial to_polynomial(const Expr& e) {
  if (e.is_int(0)) return {};
  if (e.op() != ExprOp::kAdd) return {to_term(e)};
  Polynomial p;
  p.reserve(e.args().size());
  for (const Expr& term : e.args()) p.push_back(to_term(term));
  return p;
}

Expr from_polynomial(Polynomial p) {
  if (p.empty()) return Expr(0);
  if (p.size() == 1) return from_term(std::move(p[0]));
  std::vector<Expr> terms;
  terms.reserve(p.size());
  for (Term& term : p) terms.push_back(from_term(std::move(term)));
  return ExprNode::create(ExprOp::kAdd, ScalarKind::kInt, std::move(terms));
}

Polynomial add(const Polynomial& a, const Polynomial& b) {
  Polynomial sum;
  sum.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(sum),
             [](const Term& x, const Term& y) { return compare_factors(x.factors, y.factors) < 0; });
  collect(sum);
  return sum;
}

std::optional<Polynomial> multiply(const Polynomial& a, const Polynomial& b) {
  Polynomial product;
  product.reserve(a.size() * b.size());
  for (const Term& x : a) {
    for (const Term& y : b) {
      int64_t coefficient = 0;
      if (__builtin_mul_overflow(x.coefficient, y.coefficient, &coefficient)) return std::nullopt;
      product.push_back({coefficient, merge_factors(x.factors, y.factors)});
    }
  }
  std::stable_sort(product.begin(), product.end(),
                   [](const Term& x, const Term& y) { return compare_factors(x.factors, y.factors) < 0; });
  collect(product);
  return product;
}

std::optional<Term> divide(const Term& a, const Term& b) {
  if (b.coefficient == -1 && a.coefficient == INT64_MIN) return std::nullopt;
  if (a.coefficient % b.coefficient != 0) return std::nullopt;
  Term quotient{a.coefficient / b.coefficient, {}};
  size_t matched = 0;
  for (const Expr& factor : a.factors) {
    if (matched < b.factors.size() && factor == b.factors[matched])
      ++matched;
    else
      quotient.factors.push_back(factor);
  }
  if (matched != b.factors.size()) return std::nullopt;
  return quotient;
}

std::optional<Polynomial> divide(const Polynomial& p, const Polynomial& d) {
  Polynomial quotient;
  Polynomial rest = p;
  while (!rest.empty()) {
    if (quotient.size() == p.size()) return std::nullopt;
    std::optional<Term> term = divide(rest.front(), d.front());
    if (!term || term->coefficient == INT64_MIN) return std::nullopt;
    std::optional<Polynomial> step = multiply({{-term->coefficient, term->factors}}, d);
    if (!step) return std::nullopt;
    rest = add(rest, *step);
    quotient.push_back(std::move(*term));
  }
  return quotient;
}

std::optional<std::strong_ordering> known_order(const Expr& a, const Expr& b) {
  Split x = split_constant(a);
  Split y = split_constant(b);
  if (!std::equal(x.terms.begin(), x.terms.end(), y.terms.begin(), y.terms.end())) return std::nullopt;
  return x.constant <=> y.constant;
}

}  // namespace npugraph
