// SPDX-License-Identifier: Apache-2.0
// Signs of expressions, proven from the signs of their symbols alone.
#pragma once

#include "tensor/expr.h"

namespace npugraph {

// Whether integer `e` is certain to be at least 0 if no symbol is negative. False means "cannot tell".
bool is_nonnegative(const Expr& e);

}  // namespace npugraph
