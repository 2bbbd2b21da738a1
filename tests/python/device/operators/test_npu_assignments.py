# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/vision/assignments.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, check_gradient, check_refused, integers, normal


def assigned(labels, overlaps, flags, most, best, most_of, best_of, boxes, enough, least, all_of):
    out, is_responsible = labels.clone(), flags.bool()
    for j in range(len(out)):
        if most[j] > enough and is_responsible[j]:
            out[j] = best[j] + 1
    for i in range(min(boxes, len(overlaps))):
        if most_of[i] > least:
            for j in range(len(out)):
                if is_responsible[j] and (overlaps[i, j] == most_of[i] if all_of else best_of[i] == j):
                    out[j] = i + 1
    return out


@pytest.mark.parametrize("boxes", [2, 5, 128])
@pytest.mark.parametrize("all_of", [False, True])
def test_grid_assign_positive(boxes: int, all_of: bool) -> None:
    overlaps = integers(0, 6, 5, 12, seed=1) / 8
    flags = integers(0, 4, 12, seed=2).clamp(max=1).to(torch.uint8)
    most, best = overlaps.max(0)
    most_of, best_of = overlaps.max(1)
    labels = integers(-1, 1, 12, seed=3).float()
    args = (labels, overlaps, flags, most, best.int(), most_of, best_of.int(), boxes, 0.5, 0.55, all_of)
    check(torch_npu.npu_grid_assign_positive, args, assigned, compiled=boxes == 5)


def test_no_boxes_are_assigned() -> None:
    labels, none = normal(3), torch.zeros(0)
    args = (labels, torch.zeros(0, 3), torch.ones(3), torch.zeros(3), torch.zeros(3).int(), none, none.int())
    assert torch.equal(torch_npu.npu_grid_assign_positive(*args, 0, 0.5, 0.5, True), labels)


@pytest.mark.parametrize(
    ("count", "share", "positives", "negatives"),
    [(8, 0.5, 4, 4), (8, 0.25, 2, 6), (20, 0.5, 6, 8), (30, 1.0, 6, 8), (0, 0.5, 0, 0), (7, 0.5, 3, 4)],
)
def test_sub_sample(count: int, share: float, positives: int, negatives: int) -> None:
    labels = torch.tensor([1] * 6 + [0] * 8 + [-1] * 5, dtype=torch.int32)
    for device in ("cpu", "npu"):
        given = labels.to(device)
        out = torch_npu.npu_sub_sample(given, count, share).cpu()
        assert ((out == labels) | (out == -1)).all() and out.dtype == torch.int32
        assert (out == 1).sum() == positives and (out == 0).sum() == negatives
        assert torch.equal(given.cpu(), labels)


def test_samples_differ_from_call_to_call() -> None:
    labels = integers(0, 2, 64).int().npu()
    torch.manual_seed(0)
    first, second = (torch_npu.npu_sub_sample(labels, 16, 0.5) for _ in range(2))
    torch.manual_seed(0)
    assert not torch.equal(first, second) and torch.equal(first, torch_npu.npu_sub_sample(labels, 16, 0.5))
    compiled = torch.compile(lambda x: torch_npu.npu_sub_sample(x, 16, 0.5), backend="npugraph_ex", fullgraph=True)
    assert (compiled(labels) == 1).sum() == 8


def encoded(anchors, boxes, stride, performance_mode=False):
    centre, size = (anchors[:, :2] + anchors[:, 2:]) / 2, anchors[:, 2:] - anchors[:, :2]
    true_centre, true_size = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    share = ((true_centre - centre) / stride[:, None] + 0.5).clamp(1e-6, 1 - 1e-6)
    return torch.cat([share, torch.log((true_size / size).clamp(min=1e-6))], 1)


def test_yolo_boxes_encode() -> None:
    first, size = normal(5, 2), normal(5, 2, seed=1).abs() + 0.5
    anchors = torch.cat([first, first + size], 1)
    boxes = anchors + normal(5, 4, seed=2) / 10
    boxes[4, 2:] = boxes[4, :2]
    args = (anchors, boxes, torch.tensor([1, 2, 4, 1, 1], dtype=torch.int32))
    check(torch_npu.npu_yolo_boxes_encode, args, encoded)
    check_gradient(lambda a: torch_npu.npu_yolo_boxes_encode(a, *(x.npu() for x in args[1:])), (anchors,),
                   lambda a: encoded(a, *args[1:]))  # fmt: skip


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    boxes = normal(3, 4)
    message = r"stride has shape \[2\], allowed is one element for each of 3 boxes"
    check_refused("npu_yolo_boxes_encode", message, boxes, boxes, torch.ones(2).int())
    check_refused("npu_sub_sample", "per_images is -1, allowed are 0 and more", torch.zeros(3).int(), -1, 0.5)
    check_refused("npu_sub_sample", "positive_fraction is 2, allowed are 0 to 1", torch.zeros(3).int(), 1, 2.0)
    check_refused("npu_sub_sample", "input is of type Float, allowed are Int, Long", torch.zeros(3), 1, 0.5)
    parts = [torch.zeros(3), torch.zeros(2, 3), *[torch.zeros(3)] * 3, torch.zeros(2), torch.zeros(2)]
    for place, size, message in (
        (1, (2, 4), r"overlaps has shape \[2, 4\], input has 3 elements, one for each column"),
        (3, (2,), r"max_overlaps has shape \[2\], and not that of input"),
        (5, (3,), "gt_max_overlaps has 3 elements, overlaps has 2 rows"),
    ):
        args = [torch.zeros(size) if i == place else x for i, x in enumerate(parts)]
        check_refused("npu_grid_assign_positive", message, *args, 2, 0.5, 0.5, True)
