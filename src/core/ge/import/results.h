// SPDX-License-Identifier: Apache-2.0
// Pieces of the rules.
#pragma once

#include <utility>
#include <vector>

#include "ge/import/call.h"
#include "ge/import/operand.h"

namespace npugraph::ge {

inline Attr flag(bool value) { return Expr::constant(Scalar::of_bool(value)); }
inline Attr number(double value) { return Expr::constant(Scalar::of_float(value)); }

inline std::vector<Operand> one(ir::ValueId value) { return {Operand::of(value)}; }

inline std::vector<Operand> all(const std::vector<ir::ValueId>& values) {
  std::vector<Operand> results;
  for (const ir::ValueId value : values) results.push_back(Operand::of(value));
  return results;
}

// A dimension that counts from the end if it is negative, as one from the front. UserError outside of `rank`.
size_t dimension(const Call& call, int64_t dim, size_t rank);

// The tensor with other sizes, whose product must be the same: a view where its strides allow one, else a copy.
ir::ValueId reshape(Context& context, ir::ValueId value, const std::vector<Expr>& sizes);

}  // namespace npugraph::ge
