# SPDX-License-Identifier: Apache-2.0
"""How much boxes overlap."""

from __future__ import annotations

import math

import torch

from torch_npu.contrib.function.anchor_generator import box_dtype_check

_EPSILON = 1e-9


def _corners(boxes: torch.Tensor, is_centred: bool) -> torch.Tensor:
    boxes = box_dtype_check(boxes)
    if not is_centred:
        return boxes
    half = boxes[..., 2:] * 0.5
    return torch.cat([boxes[..., :2] - half, boxes[..., :2] + half], -1)


def _pair(boxes1: torch.Tensor, boxes2: torch.Tensor, is_centred: bool, is_cross: bool) -> list[torch.Tensor]:
    one, other = _corners(boxes1, is_centred), _corners(boxes2, is_centred)
    return [one[:, None], other[None]] if is_cross else [one, other]


def _area(boxes: torch.Tensor) -> torch.Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).prod(-1)


def _overlap(one: torch.Tensor, other: torch.Tensor, of_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The common share of the union, or of the first box; and the union."""
    lower, upper = torch.maximum(one[..., :2], other[..., :2]), torch.minimum(one[..., 2:], other[..., 2:])
    common = (upper - lower).clamp(min=0).prod(-1)
    union = _area(one) + _area(other) - common
    return common / ((_area(one) if of_first else union) + _EPSILON), union


def _hull(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Width and height of the smallest box around both."""
    return torch.maximum(one[..., 2:], other[..., 2:]) - torch.minimum(one[..., :2], other[..., :2])


def _distance(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Squared distance of centres, in the squared diagonal of the smallest box around both."""
    centres = (one[..., :2] + one[..., 2:] - other[..., :2] - other[..., 2:]) * 0.5
    return centres.square().sum(-1) / (_hull(one, other).square().sum(-1) + _EPSILON)


def npu_iou(
    boxes1: torch.Tensor,
    boxes2: torch.Tensor,
    mode: str = "ptiou",
    is_normalized: bool = False,
    normalized_scale: float = 100.0,
) -> torch.Tensor:
    """[n, m]: the common area of boxes (x1, y1, x2, y2) as a share of their union; for mode "iof", of the first.

    Raises ValueError for a mode other than "iou", "ptiou" and "iof".
    """
    if mode not in ("iou", "ptiou", "iof"):
        raise ValueError(f"npu_iou: mode is {mode!r}, allowed are iou, ptiou and iof")
    scale = normalized_scale if is_normalized else 1.0
    one, other = _pair(boxes1 * scale, boxes2 * scale, is_centred=False, is_cross=True)
    return _overlap(one, other, mode == "iof")[0]


def npu_giou(boxes1: torch.Tensor, boxes2: torch.Tensor, is_permuted: bool = True) -> torch.Tensor:
    """[n, 1]: the generalised overlap (Rezatofighi et al., 2019) of boxes n and n, as centres and sizes.

    Args:
        is_permuted: whether boxes are [n, 4]; otherwise they are [4, n].
    """
    if not is_permuted:
        boxes1, boxes2 = boxes1.t(), boxes2.t()
    one, other = _pair(boxes1, boxes2, is_centred=True, is_cross=False)
    overlap, union = _overlap(one, other, of_first=False)
    hull = _hull(one, other).prod(-1)
    return (overlap - (hull - union) / (hull + _EPSILON))[:, None]


def npu_diou(
    boxes1: torch.Tensor, boxes2: torch.Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0
) -> torch.Tensor:
    """The overlap less the distance of centres (Zheng et al., Distance-IoU, 2020): [n, 1], or [n, m] of all pairs.

    Args:
        trans: whether boxes are centres and sizes; otherwise corners.
        mode: 0 for shares of the union, 1 of the first box.
    """
    one, other = _pair(boxes1, boxes2, trans, is_cross)
    out = _overlap(one, other, mode == 1)[0] - _distance(one, other)
    return out if is_cross else out[:, None]


def npu_ciou(
    boxes1: torch.Tensor, boxes2: torch.Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0
) -> torch.Tensor:
    """``npu_diou`` less how much the boxes' shapes differ (Complete-IoU of the same paper)."""
    one, other = _pair(boxes1, boxes2, trans, is_cross)
    overlap = _overlap(one, other, mode == 1)[0]

    def angle(boxes: torch.Tensor) -> torch.Tensor:
        width, height = (boxes[..., 2:] - boxes[..., :2]).unbind(-1)
        return torch.atan(width / (height + _EPSILON))

    shape = (4 / math.pi**2) * (angle(one) - angle(other)).square()
    with torch.no_grad():
        weight = shape / (1 - overlap + shape + _EPSILON)
    out = overlap - _distance(one, other) - weight * shape
    return out if is_cross else out[:, None]
