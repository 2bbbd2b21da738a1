// SPDX-License-Identifier: Apache-2.0
// Two passes that take batch normalisation apart into elementwise operators and sums, which generated code fuses with
// the nodes that make x and with those that read the results. They compute in the compute type of the floats
// (compute_type()), and require: fuses (code is generated).
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

// Statistics are given: each channel gets a factor and a summand, which are computed once for the channel.
//
//   %y, %1, %2 = aten._native_batch_norm_legit_no_training(%x, %w, %b, %mean, %var, momentum, eps)
// ->
//   %r = aten.rsqrt(aten.add.Scalar(%var, eps))
//   %a = aten.mul.Tensor(%r, %w)                                             // [channels]
//   %c = aten.sub.Tensor(%b, aten.mul.Tensor(%mean, %a))
//   %y = aten.add.Tensor(aten.mul.Tensor(%x, %a), %c)                        // as [channels, 1, 1]
//
// The host's kernels do the same. Without this pass, generated code would compute roots and products of the parameters
// again for each piece of a channel. Requires that %1 and %2 have no reader.
int expand_batch_norm(ir::Graph& graph, PassContext& context);

// Training, and gradients: aten._native_batch_norm_legit_functional and aten.native_batch_norm_backward become the
// operators of these formulas. Means and sums are over all dimensions but that of the channels, `count` elements each.
//
//   n = (x - mean) * rstd, rstd = rsqrt(mean((x - mean)^2) + eps)    y = n * w + b
//   running_mean = running_mean * (1 - momentum) + mean * momentum, and so the variance, times count / (count - 1)
//   grad_x = rstd * w * (grad - sum(grad) / count - n * sum(grad * n) / count)
//   grad_w = sum(grad * n)    grad_b = sum(grad)
//
// Nodes stay whole whose channels have one element, for which ATen has rules of its own.
int expand_batch_norm_training(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
