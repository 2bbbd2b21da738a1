// SPDX-License-Identifier: Apache-2.0
// Makes chains of elementwise operators row-major if normalisations, or copies to contiguous memory, read them. Such a
// chain is transposed only because of a transposed operand at its beginning, which is copied instead.
//
//   %p = aten.permute(%c, [0, 2, 1]) view(0)           %p = aten.permute(%c, [0, 2, 1]) view(0)
//   %a : {.., 1, 24} = aten.add.Tensor(%p, %e)         %q : {.., 64, 1} = aten.clone(%p, memory_format=contiguous)
//   %n = aten.native_layer_norm(%a, ...)          ->   %a : {.., 64, 1} = aten.add.Tensor(%q, %e)
//   %b : {.., 1, 24} = aten.add.Tensor(%a, %y)         %n = aten.native_layer_norm(%a, ...)
//   %m = aten.native_layer_norm(%b, ...)               %b : {.., 64, 1} = aten.add.Tensor(%a, %y)
//                                                      %m = aten.native_layer_norm(%b, ...)
//
// Requires: the functional graph, before operators become in-place.
// Guarantees: values and the strides of what the graph returns stay as they are; at most one added copy for each
// reading normalisation or copy. Such a reading copy then keeps the layout of its source.
// Must not: touch tensors that views, products, convolutions or operators of the host read, which depend on strides or
// prefer certain ones.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int straighten(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
