// SPDX-License-Identifier: Apache-2.0
// Proofs about index expressions from the enclosing loops. In the body of a loop its variable is in [0, extent), and
// its extent is at least 1. Nothing else is known of scalars, and nothing of values.
#pragma once

#include <string>
#include <vector>

#include "tensor/expr.h"

namespace npugraph::loop {

class Bounds {
 public:
  // Loops are entered from the outermost to the innermost.
  void enter(const std::string& variable, const Expr& extent);
  void leave();

  // False means "not proven".
  bool is_nonnegative(const Expr& e) const;

  // An equal expression without the divisions, remainders, extremes and comparisons that the loops decide:
  // floordiv(8*i + j, 8) is i and mod(8*i + j, 8) is j where j is in [0, 8).
  Expr simplify(const Expr& e) const;

 private:
  struct Range {
    std::string variable;
    Expr extent;
    Expr stands_for;  // the division that a proof replaced by this variable, if any
  };
  bool prove(Expr e, int depth) const;
  bool prove_without_loops(const Expr& e) const;
  bool replace_opaque(Expr& e, std::vector<Range>& ranges, int depth) const;
  bool range_of_opaque(const Expr& e, Expr& end, int depth) const;
  Expr simplify_node(const Expr& e) const;
  Expr simplify_division(const Expr& e) const;
  Expr drop_below_common(const Expr& dividend, int64_t divisor) const;
  Expr simplify_extreme(const Expr& e) const;

  std::vector<Range> ranges_;
};

}  // namespace npugraph::loop
