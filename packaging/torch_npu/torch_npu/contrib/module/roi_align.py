# SPDX-License-Identifier: Apache-2.0
"""Features of regions of images."""

from __future__ import annotations

import math

import torch
from torch import nn

__all__ = ["ROIAlign"]


class ROIAlign(nn.Module):
    """Calls ``npu_roi_align``, which returns means of bilinear samples of each bin of regions.

    Args:
        output_size: bins of a region, as a number or (rows, columns).
        spatial_scale: the size of the map of features, relative to the regions' coordinates.
        sampling_ratio: samples of a bin in each direction; 0 for as many as it has pixels.
        aligned: whether coordinates are those of pixels' centres, half a pixel from their corners.
    """

    def __init__(
        self, output_size: int | tuple[int, int], spatial_scale: float, sampling_ratio: int, aligned: bool = True
    ):
        super().__init__()
        self.output_size = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
        self.spatial_scale = spatial_scale
        self.sampling_ratio = sampling_ratio
        self.aligned = aligned

    def forward(self, input_tensor: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:
        """Returns [n, c, rows, columns] for ``rois`` [n, 5], which are number of the image, x1, y1, x2, y2. Raises
        ValueError for regions of another shape."""
        if rois.dim() != 2 or rois.shape[1] != 5:
            raise ValueError(f"ROIAlign: rois is {tuple(rois.shape)}, expected (n, 5)")
        if self.sampling_ratio > 0 or not len(rois):
            return self._aligned(input_tensor, rois, self.output_size, max(self.sampling_ratio, 1))
        return torch.cat([self._region(input_tensor, roi) for roi in rois.split(1)])

    def _region(self, images: torch.Tensor, roi: torch.Tensor) -> torch.Tensor:
        """Aligns one region, with as many samples as its bins have pixels: as bins of one sample each, and their
        means."""
        least = 0.0 if self.aligned else 1.0
        _, x1, y1, x2, y2 = (one * self.spatial_scale for one in roi[0].tolist())
        rows, columns = self.output_size
        down = max(math.ceil(max(y2 - y1, least) / rows), 1)
        across = max(math.ceil(max(x2 - x1, least) / columns), 1)
        samples = self._aligned(images, roi, (rows * down, columns * across), 1)
        return samples.unflatten(3, (columns, across)).unflatten(2, (rows, down)).mean((3, 5))

    def _aligned(self, images: torch.Tensor, rois: torch.Tensor, bins: tuple[int, int], samples: int) -> torch.Tensor:
        return torch.ops.npu.npu_roi_align(images, rois, self.spatial_scale, *bins, samples, 2 if self.aligned else 0)
