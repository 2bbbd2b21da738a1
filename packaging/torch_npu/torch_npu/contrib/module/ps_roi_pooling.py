# SPDX-License-Identifier: Apache-2.0
"""Position-sensitive scores of regions."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["PSROIPool"]


class PSROIPool(nn.Module):
    """Calls ``npu_ps_roi_pooling``. A region has as many bins as there are groups of maps, ``group_size`` along each
    side. Raises ValueError unless ``pooled_height`` and ``pooled_width`` equal ``group_size``."""

    def __init__(
        self,
        pooled_height: int = 7,
        pooled_width: int = 7,
        spatial_scale: float = 1 / 16.0,
        group_size: int = 7,
        output_dim: int = 22,
    ):
        super().__init__()
        if not pooled_height == pooled_width == group_size:
            raise ValueError(
                f"PSROIPool: pooled_height is {pooled_height}, pooled_width is {pooled_width}, allowed is group_size, "
                f"{group_size}"
            )
        self.spatial_scale = spatial_scale
        self.group_size = group_size
        self.output_dim = output_dim

    def forward(self, features: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:
        """Returns the bins of ``features`` [b, group_size^2 * output_dim, h, w] in the regions ``rois`` [b, 5, n]."""
        return torch.ops.npu.npu_ps_roi_pooling(features, rois, self.spatial_scale, self.group_size, self.output_dim)
