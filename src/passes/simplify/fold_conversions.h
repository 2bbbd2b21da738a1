// SPDX-License-Identifier: Apache-2.0
// Lets products and quotients convert their operands themselves, as they do by the rules of type promotion.
//
//   %f = aten._to_copy(%i, dtype=f32)
//   %m = aten.mul.Tensor(%f, %x)         ->    %m = aten.mul.Tensor(%i, %x)
//
// Positions of a decode step are integers that meet floating-point frequencies. Only for few elements: they are converted while
// they are read, whereas operators may hold many converted elements in memory of their own, of which no plan knows.
//
// Requires: the conversion has no other reader, and what it reads is not written before the arithmetic.
// Guarantees: type and values to the bit: the common type of the operands stays the same.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int fold_conversions(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
