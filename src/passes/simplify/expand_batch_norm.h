// SPDX-License-Identifier: Apache-2.0
// Computes what batch normalisation does to a channel once for the channel: a factor and a summand, in the type in which floats
// compute.
//
//   %y, %1, %2 = aten._native_batch_norm_legit_no_training(%x, %w, %b, %mean, %var, momentum, eps)
// ->
//   %r = aten.rsqrt(aten.add.Scalar(%var, eps))
//   %a = aten.mul.Tensor(%r, %w)                                             // [channels]
//   %c = aten.sub.Tensor(%b, aten.mul.Tensor(%mean, %a))
//   %y = aten.add.Tensor(aten.mul.Tensor(%x, %a), %c)                        // as [channels, 1, 1]
//
// So do the host's kernels. Generated code fuses the last line with what makes x; roots and products of the parameters would
// be computed again there, for each piece of a channel.
//
// Requires: nobody reads %1 and %2.
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int expand_batch_norm(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
