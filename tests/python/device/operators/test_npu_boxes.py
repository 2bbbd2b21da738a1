# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/vision/boxes.cc and box_gradients.cc, against loops over boxes."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, check_close, check_gradient, normal


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
def test_iou_and_its_gradient_are_those_of_the_reference(mode: int) -> None:
    def reference(a, b, mode):
        return torch.stack([torch.stack([overlap(x, y, mode)[0] for x in a]) for y in b])

    check(torch_npu.npu_iou, (boxes(3), boxes(4, 1), mode), reference)
    check(torch_npu.npu_ptiou, (boxes(3), boxes(4, 1), mode), reference, compiled=False)
    check_gradient(torch_npu.npu_iou, (boxes(3), boxes(4, 1), mode), reference)


def test_iou_of_empty_boxes_is_zero() -> None:
    check(torch_npu.npu_iou, (torch.zeros(2, 4), torch.zeros(3, 4)), lambda a, b: torch.zeros(3, 2))


def of_pairs(function, dim):
    """Returns a reference that applies ``function`` to all pairs of boxes, or to the boxes at the same place if not
    ``is_cross``. The four numbers of a box are in dimension ``dim``."""

    def reference(a, b, trans, is_cross, mode):
        rows = [
            [function(corners(x, trans), corners(y, trans), mode) for y in b.unbind(1 - dim)] for x in a.unbind(1 - dim)
        ]
        if not is_cross:
            return torch.stack([row[i] for i, row in enumerate(rows)]).unsqueeze(dim)
        return torch.stack([torch.stack(row) for row in rows])

    return reference


COMPARISONS = [
    (torch_npu.npu_giou, torch_npu.npu_giou_backward, giou, 1),
    (torch_npu.npu_diou, torch_npu.npu_diou_backward, diou, 0),
    (torch_npu.npu_ciou, torch_npu.npu_ciou_backward, ciou, 0),
]
WAYS = [(trans, is_cross, mode) for trans in (False, True) for is_cross in (False, True) for mode in (0, 1)]


def two(dim: int, trans: bool, is_cross: bool) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = boxes(3, centre=trans), boxes(5 if is_cross else 3, 1, centre=trans)
    return (a, b) if dim else (a.t().contiguous(), b.t().contiguous())


@pytest.mark.parametrize(("op", "_", "function", "dim"), COMPARISONS)
def test_overlaps_with_penalties(op, _, function, dim: int) -> None:
    reference = of_pairs(function, dim)
    for way in WAYS:
        check_gradient(op, (*two(dim, *way[:2]), *way), reference)
    for way in ((False, False, 0), (True, True, 1)):
        check(op, (*two(dim, *way[:2]), *way), reference, compiled=way[2] == 0)


@pytest.mark.parametrize(("_", "op", "function", "dim"), COMPARISONS)
def test_gradients_of_overlaps(_, op, function, dim: int) -> None:
    def backward(grad, a, b, *rest):
        leaves = [x.detach().double().requires_grad_() for x in (a, b)]
        of_pairs(function, dim)(*leaves, *rest[-3:]).backward(grad.double())
        return [x.grad for x in leaves]

    for way in WAYS:
        a, b = two(dim, *way[:2])
        value, difference = torch.ops.npu._npu_ciou(*((a, b) if dim == 0 else (a.t(), b.t())), *way)
        grad = normal(*(value if dim == 0 or way[1] else value.t()).shape, seed=7)
        for kept in [(None,), (difference,)] if function is ciou else [()]:
            args = (grad, a, b, *kept, *way)
            check_close(op(*args), backward(*args))
    check(op, args, backward, compiled=function is ciou)


def test_gradients_where_sides_are_the_same() -> None:
    a = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 2.0]])
    b = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 1.0, 3.0, 2.0]])
    leaves = [x.clone().requires_grad_() for x in (a, b)]
    torch_npu.npu_giou(*leaves).sum().backward()
    found = torch_npu.npu_giou_backward(torch.ones(2, 1), a, b)
    for got, leaf in zip(found, leaves, strict=True):
        torch.testing.assert_close(got, leaf.grad)


def test_half_precision() -> None:
    args = (boxes(3).half(), boxes(3, 1).half(), False, True, 0)
    check(torch_npu.npu_giou, args, of_pairs(giou, 1), compiled=False, dynamic=False)
    found = torch_npu.npu_giou_backward(torch.ones(3, 3).half(), *args)
    right = torch_npu.npu_giou_backward(torch.ones(3, 3), *(x.float() for x in args[:2]), *args[2:])
    for got, want in zip(found, right, strict=True):
        assert torch.equal(got, want.half())


def test_ciou_and_the_angles_that_it_keeps() -> None:
    args = (*two(0, True, False), True, False)
    value, difference = torch.ops.npu._npu_ciou(*args)
    assert torch.equal(value, torch_npu.npu_ciou(*args))
    angles = [torch.atan(x[2] / x[3]) for x in args[:2]]
    torch.testing.assert_close(difference, (angles[1] - angles[0])[None])


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
        (
            lambda: torch_npu.npu_diou(boxes(4), boxes(4)[:, :3]),
            r"npu_diou: gtboxes has shape \[4, 3\], and not that of input, \[4, 4\]",
        ),
        (
            lambda: torch_npu.npu_giou_backward(normal(2, 3), boxes(3), boxes(3)),
            r"npu_giou_backward: grad has shape \[2, 3\], allowed is 1 in dimension 1 without is_cross",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(call, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()
