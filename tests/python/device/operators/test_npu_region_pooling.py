# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/vision/region_pooling.cc, against loops over bins."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, check_gradient, integers, normal


def roi_align(x, rois, scale, height, width, samples, end_mode):
    def at(image, y, x):
        size_y, size_x = image.shape[1:]
        if not (-1 <= y <= size_y and -1 <= x <= size_x):
            return torch.zeros_like(image[:, 0, 0])
        y, x = min(max(y, 0), size_y - 1), min(max(x, 0), size_x - 1)
        low_y, low_x = int(y), int(x)
        high_y, high_x = min(low_y + 1, size_y - 1), min(low_x + 1, size_x - 1)
        dy, dx = y - low_y, x - low_x
        top = image[:, low_y, low_x] * (1 - dx) + image[:, low_y, high_x] * dx
        return top * (1 - dy) + (image[:, high_y, low_x] * (1 - dx) + image[:, high_y, high_x] * dx) * dy

    out = []
    for image, x0, y0, x1, y1 in rois.tolist():
        shift, more, least = (0, 0, 1) if end_mode == 0 else (0, 1, 0) if end_mode == 1 else (0.5, 0, -math.inf)
        x0, y0, x1, y1 = (one * scale - shift for one in (x0, y0, x1 + more, y1 + more))
        bin_x, bin_y = max(x1 - x0, least) / width, max(y1 - y0, least) / height
        steps = [(i + 0.5) / samples for i in range(samples)]
        bins = [
            sum(at(x[int(image)], y0 + (i + v) * bin_y, x0 + (j + u) * bin_x) for v in steps for u in steps)
            / samples**2
            for i in range(height)
            for j in range(width)
        ]
        out.append(torch.stack(bins, 1).view(-1, height, width))
    return torch.stack(out)


@pytest.mark.parametrize("end_mode", [0, 1, 2])
def test_roi_align(end_mode: int) -> None:
    x = normal(2, 3, 6, 7)
    rois = torch.tensor([[0, 1, 2, 20, 15], [1, -6, -2, 9, 40], [0, 4, 4, 5, 5]], dtype=torch.float32)
    rest = (0.25, 2, 3, 2, end_mode)
    check(torch_npu.npu_roi_align, (x, rois, *rest), roi_align, compiled=end_mode == 0)
    check_gradient(lambda x: torch_npu.npu_roi_align(x, rois.npu(), *rest), (x,), lambda x: roi_align(x, rois, *rest))

    def backward(grad, *_):
        leaf = x.double().requires_grad_()
        roi_align(leaf, rois, *rest).backward(grad)
        return leaf.grad

    args = (normal(3, 3, 2, 3, seed=2), rois, [2, 3, 6, 7], 3, 2, 0.25, 2, end_mode)
    check(torch_npu.npu_roi_alignbk, args, backward, compiled=end_mode == 1)


def test_roi_align_of_a_ramp() -> None:
    x = torch.arange(1.0, 37.0).view(1, 1, 6, 6)
    rois = torch.tensor([[0, -2.0, -2.0, 22.0, 22.0]])
    want = torch.tensor([[4.5, 6.5, 8.5], [16.5, 18.5, 20.5], [28.5, 30.5, 32.5]]).view(1, 1, 3, 3)
    assert torch.equal(torch_npu.npu_roi_align(x, rois, 0.25, 3, 3, 2, 0), want)


def ps_roi_pooling(x, rois, scale, bins, maps):
    out = torch.zeros(len(rois) * rois.shape[2], maps, bins, bins, dtype=x.dtype)
    for r, (image, x0, y0, x1, y1) in enumerate(rois.transpose(1, 2).reshape(-1, 5).tolist()):
        x0, y0, x1, y1 = x0 * scale, y0 * scale, (x1 + 1) * scale, (y1 + 1) * scale
        width, height = max(x1 - x0, 0.1) / bins, max(y1 - y0, 0.1) / bins
        for i in range(bins):
            rows = [h for h in range(x.shape[2]) if math.floor(y0 + i * height) <= h < math.ceil(y0 + (i + 1) * height)]
            for j in range(bins):
                columns = [
                    w for w in range(x.shape[3]) if math.floor(x0 + j * width) <= w < math.ceil(x0 + (j + 1) * width)
                ]
                for d in range(maps if rows and columns else 0):
                    channel = x[int(image), (d * bins + i) * bins + j]
                    out[r, d, i, j] = channel[rows][:, columns].mean()
    return out


PS_ROIS = torch.tensor(
    [
        [[0, 1, 2, 14, 11], [1, -6, -2, 9, 40], [1, 3, 3, 3, 3]],
        [[1, 0, 0, 27, 23], [0, 40, 40, 50, 50], [0, 9, 1, 4, 20]],
    ],
    dtype=torch.float32,
).transpose(1, 2)


def test_ps_roi_pooling() -> None:
    x, rest = normal(2, 18, 6, 7), (0.25, 3, 2)
    check(torch_npu.npu_ps_roi_pooling, (x, PS_ROIS, *rest), ps_roi_pooling)
    check(
        torch_npu.npu_ps_roi_pooling,
        (x.bfloat16(), PS_ROIS.bfloat16(), *rest),
        ps_roi_pooling,
        compiled=False,
        dynamic=False,
    )
    rois = PS_ROIS.npu()
    check_gradient(
        lambda x: torch_npu.npu_ps_roi_pooling(x, rois, *rest), (x,), lambda x: ps_roi_pooling(x, PS_ROIS, *rest)
    )

    def backward(grad, *_):
        leaf = x.double().requires_grad_()
        ps_roi_pooling(leaf, PS_ROIS, *rest).backward(grad)
        return leaf.grad

    args = (normal(6, 2, 3, 3, seed=2), PS_ROIS, *rest, [6, 7])
    check(torch_npu.npu_ps_roi_pooling_backward, args, backward)


def test_ps_roi_pooling_of_a_whole_map() -> None:
    x = torch.arange(16.0).view(1, 4, 2, 2)
    rois = torch.tensor([0.0, 0, 0, 1, 1]).view(1, 5, 1)
    assert torch_npu.npu_ps_roi_pooling(x, rois, 1.0, 2, 1).flatten().tolist() == [0, 5, 10, 15]
    outside = torch.tensor([0.0, 2, 3, 4, 5]).view(1, 5, 1)
    assert torch_npu.npu_ps_roi_pooling(x.view(1, 16, 1, 1)[:, :8], outside, 0.5, 2, 2).eq(0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: torch_npu.npu_roi_align(normal(1, 2, 3, 3), integers(0, 1, 2, 5), 1.0, 2, 2, 0, 1),
            r"npu_roi_align: sample_num is 0, allowed are 1 and more",
        ),
        (
            lambda: torch_npu.npu_ps_roi_pooling(normal(1, 17, 3, 3), normal(1, 5, 2), 1.0, 3, 2),
            r"npu_ps_roi_pooling: input has 17 channels, allowed are group_size\^2 \* output_dim, 18",
        ),
        (
            lambda: torch_npu.npu_ps_roi_pooling(normal(1, 18, 3, 3), normal(1, 4, 2), 1.0, 3, 2),
            r"npu_ps_roi_pooling: rois has shape \[1, 4, 2\], allowed is 5 in dimension 1",
        ),
        (
            lambda: torch_npu.npu_ps_roi_pooling(normal(1, 18, 3, 3), normal(1, 5, 2), 1.0, 0, 2),
            r"npu_ps_roi_pooling: group_size is 0, output_dim is 2, allowed are 1 and more",
        ),
        (
            lambda: torch_npu.npu_ps_roi_pooling_backward(normal(2, 2, 3, 3), normal(1, 5, 2), 1.0, 3, 2, [3]),
            r"npu_ps_roi_pooling_backward: input_size has 1 elements, allowed are 2",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(call, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()
