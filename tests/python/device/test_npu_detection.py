# SPDX-License-Identifier: Apache-2.0
"""Operators of src/torch/npu_ops/detection.cc and spectra.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, check_gradient, integers, normal


def boxes(n: int) -> torch.Tensor:
    first = normal(n, 2) * 2
    return torch.cat([first, first + normal(n, 2, seed=1).abs() * 3], 1)


def overlap(a, b) -> float:
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    area = lambda box: (box[2] - box[0]) * (box[3] - box[1])  # noqa: E731
    return width * height / (area(a) + area(b) - width * height)


def kept(rows: list, order: list[int], limit: float) -> list[int]:
    out: list[int] = []
    for i in order:
        if all(overlap(rows[i], rows[j]) <= limit for j in out):
            out.append(i)
    return out


@pytest.mark.parametrize("most", [3, 20])
def test_nms_v4(most: int) -> None:
    def reference(boxes, scores, most, iou_threshold, scores_threshold):
        order = [i for i in scores.argsort(descending=True).tolist() if scores[i] > scores_threshold]
        places = kept(boxes.tolist(), order, iou_threshold.item())[:most]
        return torch.tensor(places + [0] * (most - len(places))), torch.tensor(len(places))

    args = (boxes(12), normal(12, seed=2), most, torch.tensor(0.3), torch.tensor(-0.5))
    check(torch_npu.npu_nms_v4, args, reference, whole=True)


def test_nms_with_mask() -> None:
    rows = torch.cat([boxes(12), normal(12, 1, seed=2)], 1)

    def reference(rows, limit):
        order = rows[:, 4].argsort(descending=True)
        places = kept(rows[order].tolist(), list(range(12)), limit)
        return rows[order], order, torch.tensor([int(i in places) for i in range(12)])

    check(torch_npu.npu_nms_with_mask, (rows, 0.3), reference, whole=True)


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
        x0, y0, x1, y1 = x0 * scale, y0 * scale, (x1 + end_mode) * scale, (y1 + end_mode) * scale
        least = 0 if end_mode else 1
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


@pytest.mark.parametrize("end_mode", [0, 1])
def test_roi_align(end_mode: int) -> None:
    x = normal(2, 3, 6, 7)
    rois = torch.tensor([[0, 1, 2, 20, 15], [1, -6, -2, 9, 40], [0, 4, 4, 5, 5]], dtype=torch.float32)
    rest = (0.25, 2, 3, 2, end_mode)
    check(torch_npu.npu_roi_align, (x, rois, *rest), roi_align)
    check_gradient(lambda x: torch_npu.npu_roi_align(x, rois.npu(), *rest), (x,), lambda x: roi_align(x, rois, *rest))

    def backward(grad, *_):
        leaf = x.double().requires_grad_()
        roi_align(leaf, rois, *rest).backward(grad)
        return leaf.grad

    args = (normal(3, 3, 2, 3, seed=2), rois, [2, 3, 6, 7], 3, 2, 0.25, 2, end_mode)
    check(torch_npu.npu_roi_alignbk, args, backward)


def test_roi_align_of_a_ramp() -> None:
    x = torch.arange(1.0, 37.0).view(1, 1, 6, 6)
    rois = torch.tensor([[0, -2.0, -2.0, 22.0, 22.0]])
    want = torch.tensor([[4.5, 6.5, 8.5], [16.5, 18.5, 20.5], [28.5, 30.5, 32.5]]).view(1, 1, 3, 3)
    assert torch.equal(torch_npu.npu_roi_align(x, rois, 0.25, 3, 3, 2, 0), want)


@pytest.mark.parametrize("length", [6, 7])
@pytest.mark.parametrize("dim", [(1,), (0, 1), (1, 0)])
def test_gradients_of_transforms(length: int, dim: tuple[int, ...]) -> None:
    norms = {0: "backward", 1: "ortho", 2: "forward"}
    half = length // 2 + 1
    for number, norm in norms.items():
        x = normal(length, length)
        sizes = [half if i == dim[-1] else length for i in range(2)]
        grad = torch.complex(normal(*sizes, seed=1), normal(*sizes, seed=2))
        leaf = x.double().requires_grad_()
        torch.fft.rfftn(leaf, dim=dim, norm=norm).backward(grad.to(torch.complex128))
        got = torch.ops.npu.fft_r2c_backward(grad.npu(), list(dim), number, True, length)
        torch.testing.assert_close(got.cpu().double(), leaf.grad, rtol=1e-4, atol=1e-4)

        leaf = grad.to(torch.complex128).requires_grad_()
        torch.fft.irfftn(leaf, s=[length] * len(dim), dim=dim, norm=norm).backward(x.double())
        inverse = {0: 2, 1: 1, 2: 0}[number]  # the number of the transform that the inverse is made of
        got = torch.ops.npu.fft_c2r_backward(x.npu(), list(dim), inverse)
        torch.testing.assert_close(got.cpu().to(torch.complex128), leaf.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: torch_npu.npu_nms_v4(boxes(3), normal(2), 3, torch.tensor(0.5), torch.tensor(0.5)),
            r"npu_nms_v4: scores has 2 elements, input has 3 rows",
        ),
        (
            lambda: torch_npu.npu_roi_align(normal(1, 2, 3, 3), integers(0, 1, 2, 5), 1.0, 2, 2, 0, 1),
            r"npu_roi_align: sample_num is 0, allowed are 1 and more",
        ),
    ],
)
def test_errors(call, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()
