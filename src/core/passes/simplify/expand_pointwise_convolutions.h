// SPDX-License-Identifier: Apache-2.0
// Turns convolutions of images in channels_last with kernels of one pixel into the products that they are. The pixels
// are the rows of a matrix, where they lie.
//
//   %y = aten.convolution(%x, %w, %b, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)      // %w [o, c, 1, 1]
// ->
//   %r = aten.view(aten.permute(%x, [0, 2, 3, 1]), [n * h * w, c])
//   %p = aten.addmm(%b, %r, aten.permute(aten.view(%w, [o, c]), [1, 0]))             // aten.mm without %b
//   %y = aten.permute(aten.view(%p, [n, h, w, o]), [0, 3, 1, 2])
//
// What follows on the convolution becomes a part of the product. Without this pass, the host's kernel computes the
// convolution, or on hosts without kernels a loop of scalar products does.
//
// Requires: fuses (code is generated); the graph is functional.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int expand_pointwise_convolutions(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
