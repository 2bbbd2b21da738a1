# SPDX-License-Identifier: Apache-2.0
"""Which anchors answer for which boxes."""

from __future__ import annotations

import torch


def box_dtype_check(box: torch.Tensor) -> torch.Tensor:
    """``box`` in float32, unless it is in float32 or float16."""
    return box if box.dtype in (torch.float32, torch.float16) else box.float()


def npu_single_level_responsible_flags(
    featmap_size: tuple[int, int], gt_bboxes: torch.Tensor, stride: tuple[int, int], num_base_anchors: int
) -> torch.Tensor:
    """For each anchor of a map of features, whether the centre of a box is in its cell, as uint8 (YOLOv3, 2018).

    Args:
        featmap_size: height and width of the map.
        gt_bboxes: boxes [n, 4] as (x1, y1, x2, y2).
        stride: width and height of a cell.
        num_base_anchors: anchors of each cell.
    """
    height, width = featmap_size
    boxes = box_dtype_check(gt_bboxes)
    columns = ((boxes[:, 0] + boxes[:, 2]) * 0.5 / stride[0]).floor().long()
    rows = ((boxes[:, 1] + boxes[:, 3]) * 0.5 / stride[1]).floor().long()
    flags = torch.zeros(height * width, dtype=torch.uint8, device=boxes.device)
    flags[rows * width + columns] = 1
    return flags.repeat_interleave(num_base_anchors)
