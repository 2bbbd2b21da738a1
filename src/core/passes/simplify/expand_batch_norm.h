// SPDX-License-Identifier: Apache-2.0
// Turns batch normalisation into a factor and a summand for each channel, which are computed once for the channel, in
// the compute type of the floats (compute_type()).
//
//   %y, %1, %2 = aten._native_batch_norm_legit_no_training(%x, %w, %b, %mean, %var, momentum, eps)
// ->
//   %r = aten.rsqrt(aten.add.Scalar(%var, eps))
//   %a = aten.mul.Tensor(%r, %w)                                             // [channels]
//   %c = aten.sub.Tensor(%b, aten.mul.Tensor(%mean, %a))
//   %y = aten.add.Tensor(aten.mul.Tensor(%x, %a), %c)                        // as [channels, 1, 1]
//
// The host's kernels do the same. Generated code fuses the last line with the nodes that make x. Without this pass, it
// would compute roots and products of the parameters again for each piece of a channel.
//
// Requires: fuses (code is generated); %1 and %2 have no reader.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int expand_batch_norm(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
