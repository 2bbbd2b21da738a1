// SPDX-License-Identifier: Apache-2.0
// Lets chains of elementwise operators that normalisations read, or copies that make them contiguous, keep rows in order, where
// only a transposed operand at their beginning makes them keep columns.
//
//   %p = aten.permute(%c, [0, 2, 1]) view(0)           %p = aten.permute(%c, [0, 2, 1]) view(0)
//   %a : {.., 1, 24} = aten.add.Tensor(%p, %e)         %q : {.., 64, 1} = aten.clone(%p, memory_format=contiguous)
//   %n = aten.native_layer_norm(%a, ...)          ->   %a : {.., 64, 1} = aten.add.Tensor(%q, %e)
//   %b : {.., 1, 24} = aten.add.Tensor(%a, %y)         %n = aten.native_layer_norm(%a, ...)
//   %m = aten.native_layer_norm(%b, ...)               %b : {.., 64, 1} = aten.add.Tensor(%a, %y)
//                                                      %m = aten.native_layer_norm(%b, ...)
//
// Requires: the functional graph, before operators become in-place.
// Guarantees: values and the strides of what the graph returns stay as they are; at most one copy for each normalisation,
// and for each copy, which then is one of its own layout.
// Must not: touch what views, products, convolutions or operators of the host read, which depend on strides or prefer them.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int straighten(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
