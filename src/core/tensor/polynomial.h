// SPDX-License-Identifier: Apache-2.0
// Integer expressions as sums of monomials, the form in which they are normalised. Internal to this directory.
#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "tensor/expr.h"

namespace npugraph {

// coefficient * factors[0] * factors[1] * ...; factors are sorted by compare() and repeat for powers.
struct Term {
  int64_t coefficient = 0;
  std::vector<Expr> factors;
};

// Terms with coefficients other than 0, sorted by compare_factors. Empty is 0.
using Polynomial = std::vector<Term>;

// The order of terms: more factors first, then by the factors. Multiplying both sides by the same factors keeps it.
std::strong_ordering compare_factors(const std::vector<Expr>& a, const std::vector<Expr>& b);

Polynomial to_polynomial(const Expr& e);
Expr from_polynomial(Polynomial p);

// Terms whose coefficients do not fit 64 bits together stay apart.
Polynomial add(const Polynomial& a, const Polynomial& b);
// Nullopt if a coefficient overflows.
std::optional<Polynomial> multiply(const Polynomial& a, const Polynomial& b);

// a / b if that is a monomial with an integer coefficient. Factors that cancel are taken to be non-zero.
std::optional<Term> divide(const Term& a, const Term& b);
// p / d if that is a polynomial of at most as many terms as p.
std::optional<Polynomial> divide(const Polynomial& p, const Polynomial& d);

// Whether a < b, a == b or a > b for all values of the symbols; nullopt unless a - b is a constant.
std::optional<std::strong_ordering> known_order(const Expr& a, const Expr& b);

}  // namespace npugraph
