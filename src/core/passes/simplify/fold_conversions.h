// SPDX-License-Identifier: Apache-2.0
// Lets products and quotients convert their operands themselves, as they do by the rules of type promotion.
//
//   %f = aten._to_copy(%i, dtype=f32)
//   %m = aten.mul.Tensor(%f, %x)         ->    %m = aten.mul.Tensor(%i, %x)
//
// Example: a decode step multiplies integer positions by floating-point frequencies. Only for few elements: these are
// converted while they are read. Many converted elements might be held in memory of the operator's own, of which no
// plan knows.
//
// Requires: the conversion has no other reader, and its source is not written before the arithmetic.
// Guarantees: type and values to the bit: the common type of the operands stays the same.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int fold_conversions(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
