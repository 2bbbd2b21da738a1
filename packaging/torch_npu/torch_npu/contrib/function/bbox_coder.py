# SPDX-License-Identifier: Apache-2.0
"""Boxes as differences from anchors and back. Boxes are [n, 4] as (x1, y1, x2, y2)."""

from __future__ import annotations

import math

import torch

from torch_npu.contrib.function.anchor_generator import box_dtype_check

__all__ = ["npu_bbox_coder_decode_xywh2xyxy", "npu_bbox_coder_encode_xyxy2xywh", "npu_bbox_coder_encode_yolo"]

_EPSILON = 1e-6


def _centre_and_size(boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (boxes[..., :2] + boxes[..., 2:]) * 0.5, boxes[..., 2:] - boxes[..., :2]


def npu_bbox_coder_encode_yolo(
    bboxes: torch.Tensor, gt_bboxes: torch.Tensor, stride: torch.Tensor | float
) -> torch.Tensor:
    """Centres in shares of a cell of ``stride``, and logarithms of sizes in those of anchors (YOLOv3, 2018)."""
    centre, size = _centre_and_size(box_dtype_check(bboxes))
    true_centre, true_size = _centre_and_size(box_dtype_check(gt_bboxes))
    stride = stride[..., None] if isinstance(stride, torch.Tensor) and stride.dim() else stride
    share = ((true_centre - centre) / stride + 0.5).clamp(_EPSILON, 1 - _EPSILON)
    return torch.cat([share, (true_size / size).clamp(min=_EPSILON).log()], -1)


def npu_bbox_coder_encode_xyxy2xywh(
    bboxes: torch.Tensor,
    gt_bboxes: torch.Tensor,
    means: list[float] | None = None,
    stds: list[float] | None = None,
    is_normalized: bool = False,
    normalized_scale: float = 10000.0,
) -> torch.Tensor:
    """Differences of centres in sizes of anchors, and logarithms of sizes in those of anchors, less ``means``, over
    ``stds`` (Fast R-CNN, 2015).

    Args:
        is_normalized: whether boxes are in shares of the image, which are multiplied by ``normalized_scale``.
    """
    boxes, truth = box_dtype_check(bboxes), box_dtype_check(gt_bboxes)
    if is_normalized:
        boxes, truth = boxes * normalized_scale, truth * normalized_scale
    centre, size = _centre_and_size(boxes)
    true_centre, true_size = _centre_and_size(truth)
    out = torch.cat([(true_centre - centre) / size, (true_size / size).log()], -1)
    return (out - out.new_tensor(means or [0.0] * 4)) / out.new_tensor(stds or [1.0] * 4)


def npu_bbox_coder_decode_xywh2xyxy(
    bboxes: torch.Tensor,
    pred_bboxes: torch.Tensor,
    means: list[float] | None = None,
    stds: list[float] | None = None,
    max_shape: tuple[int, int] | None = None,
    wh_ratio_clip: float = 16 / 1000,
) -> torch.Tensor:
    """Boxes from what ``npu_bbox_coder_encode_xyxy2xywh`` gives (Fast R-CNN, 2015).

    Args:
        max_shape: height and width of the image, which boxes do not leave.
        wh_ratio_clip: sizes change by at most this ratio.
    """
    deltas = box_dtype_check(pred_bboxes)
    deltas = deltas * deltas.new_tensor(stds or [1.0] * 4) + deltas.new_tensor(means or [0.0] * 4)
    centre, size = _centre_and_size(box_dtype_check(bboxes))
    most = abs(math.log(wh_ratio_clip))
    centre = centre + size * deltas[..., :2]
    half = size * deltas[..., 2:].clamp(-most, most).exp() * 0.5
    out = torch.cat([centre - half, centre + half], -1)
    if max_shape is None:
        return out
    height, width = max_shape[:2]
    return torch.minimum(out.clamp(min=0), out.new_tensor([width, height, width, height]))
