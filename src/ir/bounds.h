// SPDX-License-Identifier: Apache-2.0
// Facts about expressions that follow from the guarded bounds of their symbols.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace npugraph::ir {

// Whether integer `e` certainly is at least 0 while each symbol keeps its bounds. False means "cannot tell".
bool is_nonnegative(const Expr& e, const std::vector<Symbol>& symbols);

}  // namespace npugraph::ir
