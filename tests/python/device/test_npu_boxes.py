# SPDX-License-Identifier: Apache-2.0
"""Operators of src/torch/npu_ops/boxes.cc, against loops over boxes."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, check_gradient, normal


def boxes(n: int, seed: int = 0, *, centre: bool = False) -> torch.Tensor:
    first, size = normal(n, 2, seed=seed), normal(n, 2, seed=seed + 100).abs() + 0.1
    return torch.cat([first, size if centre else first + size], 1)


def corners(box, trans):
    if not trans:
        return box.unbind()
    x, y, w, h = box.unbind()
    return x - w / 2, y - h / 2, x + w / 2, y + h / 2


def overlap(a, b, mode):
    ax0, ay0, ax1, ay1 = a
    bx0, by0, bx1, by1 = b
    both = (min(ax1, bx1) - max(ax0, bx0)).clamp(min=0) * (min(ay1, by1) - max(ay0, by0)).clamp(min=0)
    of_a, of_b = (ax1 - ax0) * (ay1 - ay0), (bx1 - bx0) * (by1 - by0)
    return both / (of_b if mode else of_a + of_b - both), of_a + of_b - both


def hull(a, b):
    return min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])


def giou(a, b, mode):
    x0, y0, x1, y1 = hull(a, b)
    share, union = overlap(a, b, mode)
    whole = (x1 - x0) * (y1 - y0)
    return share - (whole - union) / whole


def diou(a, b, mode):
    x0, y0, x1, y1 = hull(a, b)
    distance = ((a[0] + a[2] - b[0] - b[2]) / 2) ** 2 + ((a[1] + a[3] - b[1] - b[3]) / 2) ** 2
    return overlap(a, b, mode)[0] - distance / ((x1 - x0) ** 2 + (y1 - y0) ** 2)


def ciou(a, b, mode):
    difference = torch.atan((b[2] - b[0]) / (b[3] - b[1])) - torch.atan((a[2] - a[0]) / (a[3] - a[1]))
    shape = 4 / math.pi**2 * difference**2
    weight = (shape / (1 - overlap(a, b, mode)[0] + shape)).detach()
    return diou(a, b, mode) - weight * shape


@pytest.mark.parametrize("mode", [0, 1])
def test_iou(mode: int) -> None:
    def reference(a, b, mode):
        return torch.stack([torch.stack([overlap(x, y, mode)[0] for x in a]) for y in b])

    for op in (torch_npu.npu_iou, torch_npu.npu_ptiou):
        check(op, (boxes(3), boxes(4, 1), mode), reference)
    check_gradient(torch_npu.npu_iou, (boxes(3), boxes(4, 1), mode), reference)


def test_iou_of_empty_boxes_is_zero() -> None:
    check(torch_npu.npu_iou, (torch.zeros(2, 4), torch.zeros(3, 4)), lambda a, b: torch.zeros(3, 2))


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("mode", [0, 1])
def test_giou(trans: bool, mode: int) -> None:
    def reference(a, b, trans, is_cross, mode):
        rows = [[giou(corners(x, trans), corners(y, trans), mode) for y in b] for x in a]
        rows = rows if is_cross else [[row[i]] for i, row in enumerate(rows)]
        return torch.stack([torch.stack(row) for row in rows])

    a, b = boxes(3, centre=trans), boxes(3, 1, centre=trans)
    for is_cross in (False, True):
        check(torch_npu.npu_giou, (a, b, trans, is_cross, mode), reference)
    check_gradient(torch_npu.npu_giou, (a, b, trans, False, mode), reference)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("mode", [0, 1])
def test_diou_and_ciou(trans: bool, mode: int) -> None:
    def of_columns(function):
        def reference(a, b, trans, is_cross, mode):
            pairs = zip(a.t(), b.t(), strict=True)
            return torch.stack([function(corners(x, trans), corners(y, trans), mode) for x, y in pairs]).unsqueeze(0)

        return reference

    a, b = boxes(3, centre=trans).t().contiguous(), boxes(3, 1, centre=trans).t().contiguous()
    args = (a, b, trans, False, mode)
    check(torch_npu.npu_diou, args, of_columns(diou))
    check_gradient(torch_npu.npu_diou, args, of_columns(diou))
    check(torch_npu.npu_ciou, args, of_columns(ciou))
    check_gradient(torch_npu.npu_ciou, args, of_columns(ciou))
    value, _ = torch.ops.npu._npu_ciou(*args)
    assert torch.equal(value, torch_npu.npu_ciou(*args))


def test_bounding_boxes() -> None:
    anchors, targets = boxes(4) * 10 + 30, boxes(4, 1) * 10 + 30
    means, stds = (0.1, 0.2, 0.3, 0.4), (0.5, 0.6, 0.7, 0.8)

    def encode(a, b, *rest):
        size_a, size_b = a[:, 2:] - a[:, :2] + 1, b[:, 2:] - b[:, :2] + 1
        centre = ((b[:, 2:] + b[:, :2]) / 2 - (a[:, 2:] + a[:, :2]) / 2) / size_a
        codes = torch.cat([centre, (size_b / size_a).log()], 1)
        return (codes - torch.tensor(rest[:4], dtype=a.dtype)) / torch.tensor(rest[4:], dtype=a.dtype)

    check(torch_npu.npu_bounding_box_encode, (anchors, targets, *means, *stds), encode)
    codes = torch_npu.npu_bounding_box_encode(anchors, targets, *means, *stds)
    bounds = torch.tensor([59.0, 39.0, 59.0, 39.0])
    args = (anchors, codes, *means, *stds, [40, 60], 0.016)
    check(torch_npu.npu_bounding_box_decode, args, lambda *_: targets.clamp(min=0).minimum(bounds))
    clipped = (torch.tensor([[10.0, 10.0, 19.0, 19.0]]), torch.tensor([[0.0, 0.0, 9.0, 0.0]]))
    decoded = torch_npu.npu_bounding_box_decode(*clipped, *[0] * 4, *[1] * 4, [100, 100], 0.5)
    torch.testing.assert_close(decoded, torch.tensor([[5.0, 10.0, 24.0, 19.0]]))


def test_anchor_response_flags() -> None:
    def reference(boxes, size, stride, anchors):
        out = torch.zeros(*size, anchors)
        for x0, y0, x1, y1 in boxes.tolist():
            column, row = int((x0 + x1) / 2 // stride[0]), int((y0 + y1) / 2 // stride[1])
            if 0 <= row < size[0] and 0 <= column < size[1]:
                out[row, column] = 1
        return out.view(-1)

    x = boxes(6) * 20 + 30
    check(torch_npu.npu_anchor_response_flags, (x, [4, 5], [16, 16], 3), reference)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: torch_npu.npu_iou(normal(3, 5), boxes(2)),
            r"npu_iou: bboxes has shape \[3, 5\], allowed is 4 in dimension 1",
        ),
        (lambda: torch_npu.npu_iou(boxes(3), boxes(2), 2), r"npu_iou: mode is 2, allowed are \[0, 1\]"),
        (lambda: torch_npu.npu_ciou(boxes(4), boxes(4)), r"npu_ciou: is_cross is True, allowed is False"),
    ],
)
def test_errors(call, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()
