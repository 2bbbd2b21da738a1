# SPDX-License-Identifier: Apache-2.0
"""Converts boxes to differences from anchors and back, by operators. Boxes are [n, 4] as (x1, y1, x2, y2)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_npu.contrib.function.anchor_generator import box_dtype_check

__all__ = ["npu_bbox_coder_decode_xywh2xyxy", "npu_bbox_coder_encode_xyxy2xywh", "npu_bbox_coder_encode_yolo"]

_ZEROS, _ONES = (0.0,) * 4, (1.0,) * 4
# No image is larger, and float32 can represent this size.
_LARGEST = (1 << 24, 1 << 24)


def npu_bbox_coder_encode_yolo(
    bboxes: torch.Tensor, gt_bboxes: torch.Tensor, stride: torch.Tensor | float
) -> torch.Tensor:
    """Calls ``npu_yolo_boxes_encode``. ``stride`` is one number for all boxes, or one for each box."""
    boxes = box_dtype_check(bboxes)
    each = torch.as_tensor(stride, device=boxes.device).expand(len(boxes))
    return torch.ops.npu.npu_yolo_boxes_encode(boxes, box_dtype_check(gt_bboxes), each)


def npu_bbox_coder_encode_xyxy2xywh(
    bboxes: torch.Tensor,
    gt_bboxes: torch.Tensor,
    means: Sequence[float] | None = None,
    stds: Sequence[float] | None = None,
    is_normalized: bool = False,
    normalized_scale: float = 10000.0,
) -> torch.Tensor:
    """Calls ``npu_bounding_box_encode``, for which a box is one pixel larger than the distance of its corners.

    Args:
        is_normalized: whether boxes are in shares of the image. They are then multiplied by ``normalized_scale``.
    """
    scale = normalized_scale if is_normalized else 1.0
    boxes, truth = (box_dtype_check(one) * scale for one in (bboxes, gt_bboxes))
    return torch.ops.npu.npu_bounding_box_encode(boxes, truth, *(means or _ZEROS), *(stds or _ONES))


def npu_bbox_coder_decode_xywh2xyxy(
    bboxes: torch.Tensor,
    pred_bboxes: torch.Tensor,
    means: Sequence[float] | None = None,
    stds: Sequence[float] | None = None,
    max_shape: Sequence[int] | None = None,
    wh_ratio_clip: float = 16 / 1000,
) -> torch.Tensor:
    """Calls ``npu_bounding_box_decode`` on the result of ``npu_bbox_coder_encode_xyxy2xywh``.

    Args:
        max_shape: height and width of the image, which boxes do not leave. By default it is as large as float32 can
            count.
        wh_ratio_clip: sizes change by at most this ratio.
    """
    boxes, deltas = box_dtype_check(bboxes), box_dtype_check(pred_bboxes)
    shape = list(max_shape or _LARGEST)[:2]
    return torch.ops.npu.npu_bounding_box_decode(
        boxes, deltas, *(means or _ZEROS), *(stds or _ONES), shape, wh_ratio_clip
    )
