# SPDX-License-Identifier: Apache-2.0
"""Non-maximum suppression: the boxes that stay when boxes overlap."""

from __future__ import annotations

import torch

__all__ = ["npu_batched_multiclass_nms", "npu_multiclass_nms"]


def npu_multiclass_nms(
    multi_bboxes: torch.Tensor,
    multi_scores: torch.Tensor,
    score_thr: float = 0.05,
    nms_thr: float = 0.45,
    max_num: int = 50,
    score_factors: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Calls ``npu_batched_multiclass_nms`` for one image, without the dimension of images."""
    factors = None if score_factors is None else score_factors[None]
    boxes, labels = npu_batched_multiclass_nms(
        multi_bboxes[None], multi_scores[None], score_thr, nms_thr, max_num, factors
    )
    return boxes[0], labels[0]


def npu_batched_multiclass_nms(
    multi_bboxes: torch.Tensor,
    multi_scores: torch.Tensor,
    score_thr: float = 0.05,
    nms_thr: float = 0.45,
    max_num: int = 50,
    score_factors: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the ``max_num`` best boxes of each image by ``npu_batch_nms``, as corners and score [images, max_num, 5],
    and their classes, which count from 0, [images, max_num]. Zeros follow the last box.

    Args:
        multi_bboxes: [images, n, 4], or [images, n, 4 * classes].
        multi_scores: [images, n, classes].
        score_thr: boxes whose score is not above it are left out.
        nms_thr: a box stays if it overlaps by no more than this with each better box of its class.
        score_factors: [images, n], multiplied with the scores before.
    """
    scores = multi_scores if score_factors is None else multi_scores * score_factors[..., None]
    boxes = multi_bboxes.unflatten(-1, (-1, 4)) if multi_bboxes.dim() == 3 else multi_bboxes
    kept, of_kept, labels, _ = torch.ops.npu.npu_batch_nms(boxes, scores, score_thr, nms_thr, max_num, max_num)
    return torch.cat([kept, of_kept[..., None]], -1), labels
