# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/layers/deformable_convolutions.cc, against torch.nn.functional.grid_sample of each
tap."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, check_gradient, check_refused, normal


def deformable(x, weight, offset, bias, kernel, stride, padding, dilation=(1, 1, 1, 1), groups=1, parts=1, masks=True):
    (rows, columns), (height, width) = kernel, offset.shape[2:]
    given = offset.view(len(x), 3 if masks else 2, parts, rows, columns, height, width)
    y0 = (torch.arange(height) * stride[2] - padding[0]).view(-1, 1)
    x0 = torch.arange(width) * stride[3] - padding[2]

    def tap(part, i, j):
        """Returns the samples that one tap reads from the channels of one part, [N, C / parts, height, width]."""
        at = given[:, :, part, i, j]
        y, u = at[:, 1] + y0 + i * dilation[2], at[:, 0] + x0 + j * dilation[3]
        grid = torch.stack([2 * u / (x.shape[3] - 1) - 1, 2 * y / (x.shape[2] - 1) - 1], -1)
        samples = torch.nn.functional.grid_sample(x.chunk(parts, 1)[part], grid, align_corners=True)
        return samples * at[:, 2:3] if masks else samples

    lines = [
        torch.stack([torch.cat([tap(part, i, j) for part in range(parts)], 1) for j in range(columns)], -1).flatten(-2)
        for i in range(rows)
    ]
    samples = torch.stack(lines, 3).flatten(2, 3)
    return torch.nn.functional.conv2d(samples, weight, bias, stride=kernel, groups=groups), samples


def case(masks: bool, parts: int, groups: int, has_bias: bool = True):
    kernel, stride, padding, dilation = [2, 3], [1, 1, 2, 1], [1, 0, 1, 2], [1, 1, 1, 2]
    x, weight = normal(2, 4, 4, 5), normal(6, 4 // groups, *kernel, seed=1)
    offset = normal(2, (3 if masks else 2) * parts * 6, 2, 4, seed=2) * 1.5
    bias = normal(6, seed=3) if has_bias else None
    return (x, weight, offset, bias), (kernel, stride, padding, dilation, groups, parts, masks)


@pytest.mark.parametrize(("masks", "parts", "groups"), [(True, 1, 1), (True, 2, 2), (False, 2, 1)])
def test_deformable_convolutions(masks: bool, parts: int, groups: int) -> None:
    tensors, rest = case(masks, parts, groups)
    check(torch_npu.npu_deformable_conv2d, (*tensors, *rest), deformable, compiled=groups == 2)
    check_gradient(torch_npu.npu_deformable_conv2d, (*tensors, *rest), deformable)

    def backward(x, grad, _, weight, offset, *rest):
        leaves = [one.double().detach().requires_grad_() for one in (x, weight, offset, tensors[3])]
        deformable(*leaves, *rest)[0].backward(grad.double())
        return [leaf.grad for leaf in leaves]

    y, samples = torch_npu.npu_deformable_conv2d(*tensors, *rest)
    args = (tensors[0], normal(*y.shape, seed=5), samples, tensors[1], tensors[2], *rest)
    check(torch_npu.npu_deformable_conv2dbk, args, backward, compiled=False, dynamic=groups == 2)


def test_a_deformable_convolution_that_reads_what_a_plain_one_reads() -> None:
    x, weight = normal(1, 3, 6, 6).npu(), normal(4, 3, 3, 3, seed=1).npu()
    offset = torch.cat([torch.zeros(1, 18, 6, 6), torch.ones(1, 9, 6, 6)], 1).npu()
    y, _ = torch_npu.npu_deformable_conv2d(x, weight, offset, None, [3, 3], [1] * 4, [1] * 4)
    torch.testing.assert_close(y, torch.nn.functional.conv2d(x, weight, padding=1))
    offset[:, :9] = 1  # moves x one to the right
    moved, _ = torch_npu.npu_deformable_conv2d(x, weight, offset, None, [3, 3], [1] * 4, [1] * 4)
    torch.testing.assert_close(moved[..., :-1], y[..., 1:])


def test_half_precision() -> None:
    tensors, rest = case(True, 2, 2)
    args = (*(x.half() for x in tensors), *rest)
    found, right = (
        torch_npu.npu_deformable_conv2d(*given) for given in (args, (*(x.float() for x in args[:4]), *rest))
    )
    for got, want in zip(found, right, strict=True):
        assert torch.equal(got, want.half())


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    (x, weight, offset, bias), (kernel, stride, padding, *rest) = case(True, 1, 1)
    name = "npu_deformable_conv2d"
    check_refused(name, "stride has 2 elements, allowed are 4", x, weight, offset, bias, kernel, [2, 1], padding, *rest)
    check_refused(name, r"kernel_size is \[3, 3\], weight has shape \[6, 4, 2, 3\]", x, weight, offset, bias, [3, 3],
                  stride, padding, *rest)  # fmt: skip
    check_refused(name, r"offset has shape \[2, 12, 2, 4\], allowed is \[2, 18, 2, 4\]", x, weight, offset[:, :12],
                  bias, kernel, stride, padding, *rest)  # fmt: skip
    check_refused(name, "input has 3 dimensions, allowed are 4 to 4", x[0], weight, offset, bias, kernel, stride,
                  padding, *rest)  # fmt: skip
