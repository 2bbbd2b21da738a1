// SPDX-License-Identifier: Apache-2.0
// Facts about expressions that follow from the guarded bounds of their symbols.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace npugraph::ir {

// Whether integer `e` certainly is at least 0 while each symbol keeps its bounds. False means "cannot tell".
bool is_nonnegative(const Expr& e, const std::vector<Symbol>& symbols);

// The same number without the operands of min and max that are certainly not the result: min(512, s0) is s0 where s0 is
// at most 512.
Expr simplify(const Expr& e, const std::vector<Symbol>& symbols);

}  // namespace npugraph::ir
