# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/vision/rotated_boxes.cc. The area that two boxes share is that of a polygon. Its
points are the corners of each box inside the other one, and the points where sides meet, ordered around their
middle."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, check_gradient, check_refused, normal


def corners(box) -> list[tuple[float, float]]:
    x, y, width, height, angle = box
    sine, cosine = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    steps = [(-width / 2, -height / 2), (width / 2, -height / 2), (width / 2, height / 2), (-width / 2, height / 2)]
    return [(x + u * cosine - v * sine, y + u * sine + v * cosine) for u, v in steps]


def is_in(point, box) -> bool:
    x, y, width, height, angle = box
    sine, cosine = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    u, v = point[0] - x, point[1] - y
    return abs(u * cosine + v * sine) <= width / 2 + 1e-12 and abs(v * cosine - u * sine) <= height / 2 + 1e-12


def barrier_of(a, b):
    for i in range(4):
        (x0, y0), (x1, y1) = a[i], a[(i + 1) % 4]
        for j in range(4):
            (u0, v0), (u1, v1) = b[j], b[(j + 1) % 4]
            turn = (x1 - x0) * (v1 - v0) - (y1 - y0) * (u1 - u0)
            if turn == 0:
                continue
            along = ((u0 - x0) * (v1 - v0) - (v0 - y0) * (u1 - u0)) / turn
            across = ((u0 - x0) * (y1 - y0) - (v0 - y0) * (x1 - x0)) / turn
            if 0 <= along <= 1 and 0 <= across <= 1:
                yield x0 + along * (x1 - x0), y0 + along * (y1 - y0)


def common(a, b) -> float:
    of_a, of_b = corners(a), corners(b)
    points = [p for p in of_a if is_in(p, b)] + [p for p in of_b if is_in(p, a)] + list(barrier_of(of_a, of_b))
    if len(points) < 3:
        return 0.0
    x, y = (sum(p[i] for p in points) / len(points) for i in range(2))
    points.sort(key=lambda p: math.atan2(p[1] - y, p[0] - x))
    pairs = zip(points, points[1:] + points[:1], strict=True)
    return sum(p[0] * q[1] - p[1] * q[0] for p, q in pairs) / 2


def centred(box, trans):
    if not trans:
        return box
    x0, y0, x1, y1, angle = box
    return (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0, angle


def table(measure):
    def reference(a, b, trans=False, mode=0, is_cross=True):
        out = [
            [[measure(centred(x, trans), centred(y, trans), mode) for y in two] for x in one]
            for one, two in zip(a.tolist(), b.tolist(), strict=True)
        ]
        out = torch.tensor(out, dtype=torch.float64)
        return out if is_cross else out.diagonal(dim1=1, dim2=2)

    return reference


def share(a, b, mode):
    both = common(a, b)
    return both / (a[2] * a[3] if mode else a[2] * a[3] + b[2] * b[3] - both)


def boxes(n: int, seed: int, trans: bool = False) -> torch.Tensor:
    """Returns boxes of two batches."""
    first, size = normal(2, n, 2, seed=seed), normal(2, n, 2, seed=seed + 10).abs() * 2 + 0.2
    return torch.cat([first, first + size if trans else size, normal(2, n, 1, seed=seed + 20) * 90], 2)


@pytest.mark.parametrize("trans", [False, True])
def test_shared_areas_are_those_of_the_polygons(trans: bool) -> None:
    reference = table(lambda a, b, _: common(a, b))
    args = (boxes(4, 1, trans), boxes(5, 2, trans), trans)
    check(torch_npu.npu_rotated_overlaps, args, reference, whole=True, compiled=trans)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("mode", [0, 1])
def test_rotated_iou_is_that_of_the_polygons(trans: bool, mode: int) -> None:
    args = (boxes(4, 1, trans), boxes(5, 2, trans), trans, mode)
    check(torch_npu.npu_rotated_iou, args, table(share), whole=True, compiled=trans and mode == 0)
    args = (boxes(4, 1, trans), boxes(4, 2, trans), trans, mode, False)
    check(torch_npu.npu_rotated_iou, args, table(share), whole=True, compiled=False)


def test_overlaps_that_are_known() -> None:
    rows = [[0, 0, 2, 2, 0], [0, 0, 2, 2, 45], [5, 5, 2, 2, 0], [1, 0, 2, 2, 90], [0, 0, 4, 1, 90], [2, 0, 2, 2, 0]]
    got = torch_npu.npu_rotated_overlaps(torch.tensor([[rows[0]]]).double(), torch.tensor([rows]).double())
    want = torch.tensor([[[4, 8 * (math.sqrt(2) - 1), 0, 2, 2, 0]]]).double()
    torch.testing.assert_close(got, want)
    same = boxes(6, 3).half()
    torch.testing.assert_close(torch_npu.npu_rotated_iou(same, same).diagonal(dim1=1, dim2=2), torch.ones(2, 6).half())
    nothing = torch.zeros(1, 1, 5)
    assert torch_npu.npu_rotated_iou(nothing, nothing).item() == 0


def encode(anchors, boxes, weight):
    def parts(x):
        tangent = torch.tan(x[:, 4] * math.pi / 180)
        return (x[:, 0] + x[:, 2]) / 2, (x[:, 1] + x[:, 3]) / 2, x[:, 2] - x[:, 0], x[:, 3] - x[:, 1], tangent

    (ax, ay, aw, ah, at), (bx, by, bw, bh, bt) = parts(anchors), parts(boxes)
    code = [(bx - ax) / aw, (by - ay) / ah, torch.log(bw / aw), torch.log(bh / ah), bt - at]
    return torch.stack([part * one for part, one in zip(code, weight, strict=True)], 1)


def test_decoding_gives_the_boxes_that_were_encoded() -> None:
    anchors, truth = boxes(4, 1, True).transpose(1, 2), boxes(4, 2, True).transpose(1, 2)
    anchors[:, 4], truth[:, 4] = anchors[:, 4] % 160 - 80, truth[:, 4] % 160 - 80
    weight = torch.tensor([1.0, 2.0, 3.0, 0.5, 0.25])
    check(torch_npu.npu_rotated_box_encode, (anchors, truth, weight), encode)
    check_gradient(torch_npu.npu_rotated_box_encode, (anchors, truth, weight), encode)
    codes = encode(anchors.double(), truth.double(), weight.double()).float()
    check(torch_npu.npu_rotated_box_decode, (anchors, codes, weight), lambda *_: truth)


def test_codes_of_angles() -> None:
    """Angles are in degrees. Their codes are differences of tangents."""
    ones = torch.ones(5).half()
    anchor = torch.tensor([30.69, 32.6, 45.94, 59.88, -44.53]).half().view(1, 5, 1)
    truth = torch.tensor([30.44, 18.72, 33.22, 45.56, 8.5]).half().view(1, 5, 1)
    code = torch_npu.npu_rotated_box_encode(anchor, truth, ones).flatten().float()
    torch.testing.assert_close(code, torch.tensor([-0.4253, -0.5166, -1.7021, -0.0162, 1.1328]), rtol=2e-3, atol=2e-4)
    anchor = torch.tensor([4.137, 33.72, 29.4, 54.06, 41.28]).half().view(1, 5, 1)
    deltas = torch.tensor([0.0244, -1.992, 0.2109, 0.315, -37.25]).half().view(1, 5, 1)
    box = torch_npu.npu_rotated_box_decode(anchor, deltas, ones).flatten().float()
    torch.testing.assert_close(box, torch.tensor([1.7861, -10.5781, 33.0, 17.2969, -88.4375]), rtol=2e-3, atol=5e-3)


@pytest.mark.parametrize(
    ("name", "message", "args"),
    [
        ("npu_rotated_iou", r"input has shape \[2, 5, 4\], allowed is 5 in dimension 2", ((2, 5, 4), (2, 3, 5))),
        ("npu_rotated_overlaps", r"input has 2 batches, query_boxes has 1", ((2, 4, 5), (1, 3, 5))),
        ("npu_rotated_box_encode", r"input has shape \[2, 4, 3\], allowed is 5", ((2, 4, 3), (2, 4, 3), (5,))),
        ("npu_rotated_box_decode", r"weight has shape \[4\], allowed is \[5\]", ((2, 5, 3), (2, 5, 3), (4,))),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(name: str, message: str, args) -> None:
    check_refused(name, message, *(normal(*size) for size in args))
    if name == "npu_rotated_iou":
        boxes = normal(1, 2, 5)
        check_refused(name, r"mode is 2, allowed are \[0, 1\]", boxes, boxes, mode=2)
        check_refused(name, "query_boxes has shape", boxes, normal(1, 3, 5), is_cross=False)
