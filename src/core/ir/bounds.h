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

// c * floordiv(symbol, c), as which a symbol is written that is known to be a multiple of c.
Expr multiple_of(int64_t c, const Expr& symbol);

// Whether a tensor that has this size tells the value of the symbol: it is the symbol, or a multiple_of() it.
bool tells(const Expr& size, const Expr& symbol);

}  // namespace npugraph::ir
