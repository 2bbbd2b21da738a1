# SPDX-License-Identifier: Apache-2.0
"""The anchors that are responsible for boxes."""

from __future__ import annotations

import torch


def box_dtype_check(box: torch.Tensor) -> torch.Tensor:
    """Returns ``box`` in float32, unless it is in float32 or float16."""
    return box if box.dtype in (torch.float32, torch.float16) else box.float()


def npu_single_level_responsible_flags(
    featmap_size: tuple[int, int], gt_bboxes: torch.Tensor, stride: tuple[int, int], num_base_anchors: int
) -> torch.Tensor:
    """Calls ``npu_anchor_response_flags`` and returns its flags.

    Args:
        featmap_size: height and width of the map of features.
        gt_bboxes: boxes [n, 4] as (x1, y1, x2, y2).
        stride: width and height of a cell.
        num_base_anchors: number of anchors of each cell.
    """
    boxes = box_dtype_check(gt_bboxes)
    return torch.ops.npu.npu_anchor_response_flags(boxes, featmap_size, stride, num_base_anchors)
