# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/layers/convolutions.cc, against those of torch in float64."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, check_gradient, normal


def plain(op, args) -> None:
    """Checks a convolution and its gradients against torch. Returns the reference."""
    transposed = "transpose" in str(op)
    images = args[0].dim() == 4
    forward = {
        (False, True): torch.nn.functional.conv2d,
        (False, False): torch.nn.functional.conv3d,
        (True, True): torch.nn.functional.conv_transpose2d,
        (True, False): torch.nn.functional.conv_transpose3d,
    }[transposed, images]

    def reference(x, weight, bias, *rest):
        if not transposed:
            stride, padding, dilation, groups = rest
            return forward(x, weight, bias, stride, padding, dilation, groups)
        padding, output_padding, stride, dilation, groups = rest
        return forward(x, weight, bias, stride, padding, output_padding, groups, dilation)

    check(op, args, reference, dynamic=False)
    check_gradient(op, args, reference)
    return reference


def gradients(reference, *, swapped=False):
    """Returns a reference for the operator that is named backward."""

    def call(first, second, weight, *rest):
        x, grad = (second, first) if swapped else (first, second)
        *rest, mask = rest
        leaves = [x.clone(), weight.clone(), None]
        y = reference(leaves[0], leaves[1], None, *rest)
        leaves[2] = torch.zeros(y.shape[1], dtype=x.dtype)
        leaves = [leaf.requires_grad_() for leaf in leaves]
        reference(*leaves, *rest).backward(grad)
        return tuple(leaf.grad if wanted else torch.empty(0) for leaf, wanted in zip(leaves, mask, strict=False))

    return call


@pytest.mark.parametrize("dims", [2, 3])
def test_convolutions_and_their_gradients_are_those_of_torch(dims: int) -> None:
    x, weight, bias = normal(2, 4, *[6] * dims), normal(6, 2, *[3] * dims, seed=1), normal(6, seed=2)
    rest = ([2] * dims, [1] * dims, [1] * dims, 2)
    own = torch.ops.npu.npu_conv2d if dims == 2 else torch.ops.npu.npu_conv3d
    reference = plain(own.default, (x, weight, bias, *rest))
    plain(torch_npu.npu_convolution, (x, weight, None, *rest))
    y = reference(x, weight, bias, *rest)
    check(
        own.out,
        (x, weight, bias, *rest),
        lambda *args, out: out.copy_(reference(*args)),
        dynamic=False,
        out=torch.empty_like(y),
    )
    grad = normal(*y.shape, seed=3)
    own_backward = torch_npu.npu_conv2d_backward if dims == 2 else torch_npu.npu_conv3d_backward
    for op in (own_backward, torch_npu.npu_convolution_backward):
        check(op, (x, grad, weight, *rest, [True, True, True]), gradients(reference), dynamic=False)
        check(op, (x, grad, weight, *rest, [True, False, True]), gradients(reference), dynamic=False)


@pytest.mark.parametrize("dims", [2, 3])
def test_transposed_convolutions(dims: int) -> None:
    x, weight, bias = normal(2, 4, *[4] * dims), normal(4, 3, *[3] * dims, seed=1), normal(6, seed=2)
    rest = ([1] * dims, [1] * dims, [2] * dims, [1] * dims, 2)
    reference = plain(torch_npu.npu_convolution_transpose, (x, weight, bias, *rest))
    if dims == 2:
        plain(torch_npu.npu_conv_transpose2d, (x, weight, bias, *rest))
    grad = normal(*reference(x, weight, bias, *rest).shape, seed=3)
    own = torch_npu.npu_conv_transpose2d_backward if dims == 2 else torch_npu.npu_conv_transpose3d_backward
    for op in (own, torch_npu.npu_convolution_transpose_backward):
        check(op, (x, grad, weight, *rest, [True, True, True]), gradients(reference), dynamic=False)


def test_gradients_of_other_convolutions() -> None:
    ops = torch.ops.npu

    def convolve(groups):
        def reference(x, weight, bias, _, stride, padding, dilation):
            return torch.nn.functional.conv2d(x, weight, bias, stride, padding, dilation, groups)

        return reference

    x, sizes = normal(2, 4, 6, 6), ([3, 3], [1, 1], [1, 1], [1, 1])
    args = (normal(2, 4, 6, 6, seed=3), x, normal(4, 1, 3, 3, seed=1), *sizes, [True, True])
    check(ops._conv_depthwise2d_backward, args, gradients(convolve(4), swapped=True), dynamic=False)
    sizes = ([3, 3], [1, 1], [2, 2], [2, 2])
    args = (normal(2, 5, 6, 6, seed=3), x, normal(5, 4, 3, 3, seed=1), *sizes, [True] * 3)
    check(ops.slow_conv_dilated2d_backward, args, gradients(convolve(1), swapped=True), dynamic=False)

    def transposed(x, weight, bias, _, stride, padding, output_padding, dilation):
        return torch.nn.functional.conv_transpose2d(x, weight, bias, stride, padding, output_padding, 1, dilation)

    sizes = ([3, 3], [2, 2], [1, 1], [1, 1], [1, 1])
    args = (normal(2, 5, 12, 12, seed=3), x, normal(4, 5, 3, 3, seed=1), *sizes, [True] * 3)
    check(ops.slow_conv_transpose2d_backward, args, gradients(transposed, swapped=True), dynamic=False)


def test_images_without_a_batch_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"npu_conv2d: input has 3 dimensions, allowed are 4 to 4"):
        torch_npu.npu_conv2d(normal(4, 6, 6), normal(6, 4, 3, 3), None, [1, 1], [0, 0], [1, 1], 1)
