// SPDX-License-Identifier: Apache-2.0
// Lets products read the codes of weights that are dequantised for them.
//
//   %d = quantized_decomposed.dequantize_per_channel(%w, %s, %z, 0, ..)      %p = aten._weight_int8pack_mm(%x, %w, %s)
//   %t = aten.permute(%d, [1, 0])                                       ->   %y = %p - sum of rows of %x * (%z * %s)
//   %y = aten.mm(%x, %t)
//
// The same for addmm, and for weights that are only converted (with scales of 1). What the zero points take off is left out where they are 0, so that infinite elements of x stay what they
// are. Without this, each call would write and read a copy of the weights that is four times as large.
//
// Requires: fuses (code is generated); weights i8 [n, k], with scales f32 for each row and everything else f32, or converted to
// the type of x and without a bias in narrower types, which would be rounded twice; nobody writes the weights, scales or zero
// points meanwhile.
// Guarantees: types; values up to rounding.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int fold_dequantised(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
