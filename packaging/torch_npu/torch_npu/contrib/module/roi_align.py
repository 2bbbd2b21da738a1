# SPDX-License-Identifier: Apache-2.0
"""Features of regions."""

from __future__ import annotations

import math

import torch
from torch import nn

__all__ = ["ROIAlign"]


def _points(start: float, bin_size: float, bins: int, samples: int, like: torch.Tensor) -> torch.Tensor:
    """Coordinates of the samples of all bins, in order."""
    steps = torch.arange(bins * samples, dtype=like.dtype, device=like.device)
    return start + (steps + 0.5) * (bin_size / samples)


def _corners(at: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pixels before and after coordinates, the share of the latter, and whether coordinates are in the image."""
    inside = (at >= -1) & (at <= size)
    at = at.clamp(0, size - 1)
    low = at.floor()
    return low.long(), (low + 1).clamp(max=size - 1).long(), at - low, inside


def _sampled(image: torch.Tensor, ys: torch.Tensor, xs: torch.Tensor) -> torch.Tensor:
    """Bilinear samples [c, len(ys), len(xs)] of an image [c, h, w]; zeros outside of it."""
    top, bottom, share_y, in_y = _corners(ys, image.shape[1])
    left, right, share_x, in_x = _corners(xs, image.shape[2])
    rows = torch.lerp(image[:, top], image[:, bottom], share_y[None, :, None])
    return torch.lerp(rows[:, :, left], rows[:, :, right], share_x) * (in_y[:, None] & in_x)


class ROIAlign(nn.Module):
    """Means of bilinear samples of each bin of regions (Mask R-CNN, 2017).

    Args:
        output_size: bins of a region, as a number or (rows, columns).
        spatial_scale: of the map of features, relative to the regions' coordinates.
        sampling_ratio: samples of a bin in each direction; 0 for as many as it has pixels.
        aligned: whether coordinates are of pixels' centres, half a pixel from their corners.
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
        """[n, c, rows, columns] of ``rois`` [n, 5]: number of the image, x1, y1, x2, y2."""
        if rois.dim() != 2 or rois.shape[1] != 5:
            raise ValueError(f"ROIAlign: rois is {tuple(rois.shape)}, expected (n, 5)")
        regions = [self._region(input_tensor, *roi) for roi in rois.tolist()]
        empty = input_tensor.new_empty(0, input_tensor.shape[1], *self.output_size)
        return torch.stack(regions) if regions else empty

    def _region(self, images: torch.Tensor, number: float, *box: float) -> torch.Tensor:
        shift = 0.5 if self.aligned else 0.0
        x1, y1, x2, y2 = (one * self.spatial_scale - shift for one in box)
        width, height = x2 - x1, y2 - y1
        if not self.aligned:
            width, height = max(width, 1.0), max(height, 1.0)
        rows, columns = self.output_size
        per_row = self.sampling_ratio if self.sampling_ratio > 0 else max(math.ceil(height / rows), 1)
        per_column = self.sampling_ratio if self.sampling_ratio > 0 else max(math.ceil(width / columns), 1)
        image = images[int(number)]
        ys = _points(y1, height / rows, rows, per_row, image)
        xs = _points(x1, width / columns, columns, per_column, image)
        samples = _sampled(image, ys, xs)
        return samples.view(-1, rows, per_row, columns, per_column).mean((2, 4))
