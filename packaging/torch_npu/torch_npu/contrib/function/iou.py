# SPDX-License-Identifier: Apache-2.0
"""Measures of how much boxes overlap, by the operators of the same names. Boxes are [n, 4] and [m, 4]."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu.contrib.function.anchor_generator import box_dtype_check


def npu_iou(
    boxes1: torch.Tensor,
    boxes2: torch.Tensor,
    mode: str = "ptiou",
    is_normalized: bool = False,
    normalized_scale: float = 100.0,
) -> torch.Tensor:
    """Returns the common area of boxes (x1, y1, x2, y2) as a share of their union, [n, m]. For the mode "iof" it is the
    share of the first box. With ``is_normalized``, boxes are multiplied by ``normalized_scale`` before.

    Raises ValueError for a mode other than "iou", "ptiou" and "iof".
    """
    if mode not in ("iou", "ptiou", "iof"):
        raise ValueError(f"npu_iou: mode is {mode!r}, allowed are iou, ptiou and iof")
    scale = normalized_scale if is_normalized else 1.0
    first, second = (box_dtype_check(boxes) * scale for boxes in (boxes1, boxes2))
    return torch.ops.npu.npu_iou(second, first, int(mode == "iof"))


def npu_giou(boxes1: torch.Tensor, boxes2: torch.Tensor, is_permuted: bool = True) -> torch.Tensor:
    """Returns the generalised overlap [n, 1] of n pairs of boxes, which are centres and sizes.

    Args:
        is_permuted: whether boxes are [n, 4]; otherwise they are [4, n].
    """
    first, second = (box_dtype_check(boxes if is_permuted else boxes.t()) for boxes in (boxes1, boxes2))
    return torch.ops.npu.npu_giou(first, second, trans=True)


def npu_diou(
    boxes1: torch.Tensor, boxes2: torch.Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0
) -> torch.Tensor:
    """Returns the overlap less a term for the distance of n pairs of boxes, [n, 1], or with ``is_cross`` of all pairs,
    [n, m].

    Args:
        trans: whether boxes are centres and sizes; otherwise they are corners.
        mode: 0 for shares of the union, 1 for shares of the second box.
    """
    return _of_columns(torch.ops.npu.npu_diou, boxes1, boxes2, trans, is_cross, mode)


def npu_ciou(
    boxes1: torch.Tensor, boxes2: torch.Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0
) -> torch.Tensor:
    """Returns ``npu_diou`` less a term for how much the boxes' shapes differ."""
    return _of_columns(torch.ops.npu.npu_ciou, boxes1, boxes2, trans, is_cross, mode)


def _of_columns(
    op: Any, boxes1: torch.Tensor, boxes2: torch.Tensor, trans: bool, is_cross: bool, mode: int
) -> torch.Tensor:
    out = op(box_dtype_check(boxes1).t(), box_dtype_check(boxes2).t(), trans, is_cross, mode)
    return out if is_cross else out.t()
