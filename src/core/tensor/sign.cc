// SPDX-License-Identifier: Apache-2.0
#include "tensor/sign.h"

#include <algorithm>

namespace npugraph {

bool is_nonnegative(const Expr& e) {
  if (e.is_constant()) return e.as_int().value_or(-1) >= 0;
  switch (e.op()) {
    case ExprOp::kSymbol: return e.kind() == ScalarKind::kInt;
    case ExprOp::kMod: return is_nonnegative(e.args()[1]);  // it has the sign of the divisor
    case ExprOp::kAdd:
    case ExprOp::kMul:
    case ExprOp::kFloorDiv:
    case ExprOp::kCeilDiv:
    case ExprOp::kMin: return std::ranges::all_of(e.args(), is_nonnegative);
    case ExprOp::kMax: return std::ranges::any_of(e.args(), is_nonnegative);
    default: return false;
  }
}

}  // namespace npugraph
