// SPDX-License-Identifier: Apache-2.0
// Lets products read the i8 codes of weights instead of dequantised weights.
//
//   %d = quantized_decomposed.dequantize_per_channel(%w, %s, %z, 0, ..)      %p = aten._weight_int8pack_mm(%x, %w, %s)
//   %t = aten.permute(%d, [1, 0])                                       ->   %y = %p - sum of rows of %x * (%z * %s)
//   %y = aten.mm(%x, %t)
//
// The same for addmm, and for weights that are only converted (with scales of 1). Nothing is subtracted where zero
// points are 0, so that infinite elements of x do not become NaN. Without this pass, each call would write and read a
// copy of the weights that is four times as large.
//
// Requires: fuses (code is generated); weights i8 [n, k], either with f32 scales for each row and all else f32, or
// converted to the type of x, without a bias in types narrower than f32, because the sum would be rounded twice;
// weights, scales and zero points are not written in between.
// Guarantees: types; values up to rounding.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int fold_dequantised(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
