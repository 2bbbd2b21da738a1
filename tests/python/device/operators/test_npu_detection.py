# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/vision/detection.cc and spectra.cc."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, normal


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


def test_no_box_with_a_score_that_is_no_number_is_kept() -> None:
    scores = torch.tensor([0.5, math.nan, 0.9])
    args = (boxes(3), scores, 3, torch.tensor(1.0), torch.tensor(0.1))
    places, count = torch_npu.npu_nms_v4(*args)
    assert places.tolist() == [2, 0, 0] and count == 2


def test_nms_with_mask() -> None:
    rows = torch.cat([boxes(12), normal(12, 1, seed=2)], 1)

    def reference(rows, limit):
        order = rows[:, 4].argsort(descending=True)
        places = kept(rows[order].tolist(), list(range(12)), limit)
        return rows[order], order, torch.tensor([int(i in places) for i in range(12)])

    check(torch_npu.npu_nms_with_mask, (rows, 0.3), reference, whole=True)


@pytest.mark.parametrize("kinds", [1, 3])
@pytest.mark.parametrize("most", [4, 30])
def test_batch_nms(kinds: int, most: int) -> None:
    def of_image(boxes, scores, score_threshold, iou_threshold, most_of_kind):
        for kind in range(scores.shape[1]):
            rows = boxes[:, kind if kinds > 1 else 0].tolist()
            order = [i for i in scores[:, kind].argsort(descending=True).tolist() if scores[i, kind] > score_threshold]
            for i in kept(rows, order, iou_threshold)[:most_of_kind]:
                yield scores[i, kind].item(), kind, rows[i]

    def reference(boxes, scores, score_threshold, iou_threshold, most_of_kind, most):
        out = torch.zeros(len(boxes), most, 6, dtype=boxes.dtype)
        counts = torch.zeros(len(boxes), dtype=torch.int32)
        for n in range(len(boxes)):
            found = sorted(of_image(boxes[n], scores[n], score_threshold, iou_threshold, most_of_kind), reverse=True)
            counts[n] = min(len(found), most)
            for i, (score, kind, box) in enumerate(found[:most]):
                out[n, i] = torch.tensor([*box, score, kind])
        return out[..., :4], out[..., 4], out[..., 5], counts

    args = (boxes(2 * 8 * kinds).view(2, 8, kinds, 4), normal(2, 8, 3, seed=2), -0.5, 0.3, 5, most)
    check(torch_npu.npu_batch_nms, args, reference, whole=True, compiled=most == 4)


@pytest.mark.parametrize("most", [-1, 3])
@pytest.mark.parametrize("mode", [0, 1])
def test_nms_rotated(most: int, mode: int) -> None:
    corners = boxes(12) * 4
    centred = torch.cat([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], 1)
    scores, angles = normal(12, seed=2), normal(12, 1, seed=3) * 90
    rows = torch.cat([centred if mode == 0 else corners, angles], 1)
    turned = torch.cat([centred, angles], 1)
    iou = torch_npu.npu_rotated_iou(turned[None], turned[None])[0]
    want: list[int] = []
    for i in scores.argsort(descending=True).tolist():
        if scores[i] > -0.5 and all(iou[i, j] <= 0.2 for j in want):
            want.append(i)
    assert any(iou[i, j] > 0.2 for i in range(12) for j in range(i))
    for device in ("cpu", "npu"):
        places, count = torch_npu.npu_nms_rotated(rows.to(device), scores.to(device), 0.2, -0.5, most, mode)
        assert places.tolist() == (want if most < 0 else want[:most]) and count.tolist() == [len(places)]
        assert places.dtype == count.dtype == torch.int32 and places.device.type == device


def test_graphs_do_not_know_how_many_rotated_boxes_are_kept() -> None:
    from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

    with FakeTensorMode(), pytest.raises(DynamicOutputShapeException):
        torch_npu.npu_nms_rotated(torch.empty(4, 5), torch.empty(4), 0.5)

    def call(boxes, scores):
        places, _ = torch_npu.npu_nms_rotated(boxes, scores, 0.1)
        return scores[places.long()] * 2

    rows = torch.tensor([[0.0, 0, 4, 4, 0], [0, 0, 4, 4, 45], [9, 9, 2, 2, 0]]).npu()
    scores = torch.tensor([1.0, 2.0, 3.0]).npu()
    found = torch.compile(call, backend="npugraph_ex")(rows, scores)
    assert found.tolist() == [6, 4]


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
        inverse = {0: 2, 1: 1, 2: 0}[number]  # the inverse transform has the number of the opposite norm
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
            lambda: torch_npu.npu_nms_rotated(normal(3, 5), normal(3), 0.5, mode=2),
            r"npu_nms_rotated: mode is 2, allowed are \[0, 1\]",
        ),
        (
            lambda: torch_npu.npu_nms_rotated(normal(3, 4), normal(3), 0.5),
            r"npu_nms_rotated: input has shape \[3, 4\], allowed are rows of 5",
        ),
        (
            lambda: torch_npu.npu_batch_nms(normal(2, 4, 2, 4), normal(2, 4, 3), 0.1, 0.5, 3, 4),
            r"npu_batch_nms: input has shape \[2, 4, 2, 4\], scores has \[2, 4, 3\], allowed are \[B, N, 1 or C, 4\]",
        ),
        (
            lambda: torch_npu.npu_batch_nms(normal(2, 4, 1, 4), normal(2, 4, 3), 0.1, 0.5, 3, 4, True),
            r"npu_batch_nms: change_coordinate_frame is True, allowed is False",
        ),
        (
            lambda: torch_npu.npu_batch_nms(normal(2, 4, 1, 4), normal(2, 4, 3), 0.1, 0.5, 3, 4, False, True),
            r"npu_batch_nms: transpose_box is True, allowed is False",
        ),
        (
            lambda: torch_npu.npu_batch_nms(normal(2, 4, 1, 4), normal(2, 4, 3), 0.1, 0.5, -1, 4),
            r"npu_batch_nms: max_size_per_class is -1, max_total_size is 4, allowed are 0 and more",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(call, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()
