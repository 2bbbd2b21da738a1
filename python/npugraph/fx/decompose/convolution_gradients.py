# SPDX-License-Identifier: Apache-2.0
"""Gradients of convolutions -> products and convolutions, whose code is generated.

Of a 1x1 convolution with stride 1, whose pixels are the columns of matrices:

    grad_input[n] = weight.T @ grad[n]    grad_weight = sum over n of grad[n] @ input[n].T

Of a larger one with stride 1, the gradient of the input is the convolution of ``grad`` with turned weights. The
gradient of its weights is ATen's, and so are those of all other convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from npugraph.fx.decompose.parts import Parts
from npugraph.fx.schema import arguments_by_name

aten = torch.ops.aten
OPERATOR = aten.convolution_backward.default


def parts_of(node: fx.Node) -> Parts | None:
    """Returns ``convolution_gradients`` for a node of 2-byte elements, of a convolution that visits each pixel with one
    group. In f32, the operator of ATen is as fast."""
    given = arguments_by_name(OPERATOR, node.args, node.kwargs)
    weight, padding = given["weight"].meta["val"], given["padding"]
    kernel = weight.shape[2:]
    is_plain = (
        weight.dtype.itemsize == 2
        and all(step == 1 for step in (*given["stride"], *given["dilation"], given["groups"]))
        and not given["transposed"]
        and len(padding) == len(kernel)
        and all(isinstance(size, int) and size > pad for size, pad in zip(kernel, padding, strict=True))
        and (given["output_mask"][0] or _is_pointwise(kernel, padding))
    )
    return convolution_gradients if is_plain else None


def _is_pointwise(kernel: Sequence[int], padding: Sequence[int]) -> bool:
    return all(size == 1 for size in kernel) and all(pad == 0 for pad in padding)


def convolution_gradients(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> tuple[torch.Tensor | None, ...]:
    """Returns the gradients of ``x`` [n, in, *size], ``weight`` [out, in, *kernel] and the bias [out], those that are
    ``wanted``. Takes the arguments of ``OPERATOR``."""
    kernel = weight.shape[2:]
    of_x = of_weight = None
    if _is_pointwise(kernel, padding):
        matrix, pixels = weight.flatten(1), grad.flatten(2)
        if wanted[0]:
            of_x = torch.matmul(matrix.t(), pixels).view(x.shape)
        if wanted[1]:
            of_images = torch.matmul(pixels, x.flatten(2).transpose(1, 2))
            sums = torch.promote_types(weight.dtype, torch.float32)
            of_weight = of_images.sum(0, dtype=sums).to(weight.dtype).view(weight.shape)
    else:
        turned = weight.flip(list(range(2, weight.dim()))).transpose(0, 1).contiguous()
        outside = [size - 1 - pad for size, pad in zip(kernel, padding, strict=True)]
        of_x = aten.convolution(grad, turned, None, stride, outside, dilation, False, output_padding, 1)
        if wanted[1]:
            rest = (stride, padding, dilation, transposed, output_padding, groups, [False, True, False])
            of_weight = OPERATOR(grad, x, weight, None, *rest)[1]
    rows = [d for d in range(grad.dim()) if d != 1]
    return of_x, of_weight, grad.sum(rows) if wanted[2] else None
