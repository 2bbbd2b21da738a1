// SPDX-License-Identifier: Apache-2.0
// What the signs of symbols alone prove of an expression.
#pragma once

#include "tensor/expr.h"

namespace npugraph {

// Whether integer `e` certainly is at least 0 where no symbol is below 0. False means "cannot tell".
bool is_nonnegative(const Expr& e);

}  // namespace npugraph
