# SPDX-License-Identifier: Apache-2.0
"""Random changes of the colours of images."""

from __future__ import annotations

import math
from typing import Any

import numpy
import torch

__all__ = ["FusedColorJitter"]

# This matrix makes luminance and two differences of colours from red, green and blue (NTSC, 1953).
_YIQ = torch.tensor([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]], dtype=torch.float64)
_GREY = _YIQ[0].expand(3, 3)


def _range(name: str, given: float | tuple[float, float], centre: float, least: float, most: float) -> list[float]:
    """Returns the least and the largest value of a factor. ``given`` is its largest distance from ``centre``, or this
    range."""
    is_distance = isinstance(given, (int, float))
    low, high = (centre - given, centre + given) if is_distance else given
    if is_distance and math.isinf(most):
        low = max(low, least)  # no factor is negative
    if not least <= low <= high <= most:
        distance = "0 and more" if math.isinf(most) else f"0 to {most}"
        raise ValueError(
            f"FusedColorJitter: {name} is {given}, allowed are {distance}, or a range within {least} to {most}"
        )
    return [low, high]


def _turned(share: float) -> torch.Tensor:
    """Returns the matrix that turns colours around grey by a share of a turn and keeps their luminance."""
    sine, cosine = math.sin(2 * math.pi * share), math.cos(2 * math.pi * share)
    turn = torch.tensor([[1, 0, 0], [0, cosine, -sine], [0, sine, cosine]], dtype=torch.float64)
    return torch.linalg.inv(_YIQ) @ turn @ _YIQ


class FusedColorJitter(torch.nn.Module):
    """Changes brightness, contrast, saturation and hue, in this order, by random factors, in one product with a matrix
    of 3 x 3 (Haeberli, Matrix Operations for Image Processing, 1993).

    Raises ValueError for factors outside of their ranges, and for an image without three colours.

    Args:
        brightness, contrast, saturation: factors are within 1 - this and 1 + this, or within this range. Contrast is
            around the mean luminance of the image.
        hue: the share of a turn is within - this and this, at most 0.5, or within this range.
    """

    def __init__(
        self,
        brightness: float | tuple[float, float] = 0,
        contrast: float | tuple[float, float] = 0,
        saturation: float | tuple[float, float] = 0,
        hue: float | tuple[float, float] = 0,
    ):
        super().__init__()
        self.brightness = _range("brightness", brightness, 1, 0, math.inf)
        self.contrast = _range("contrast", contrast, 1, 0, math.inf)
        self.saturation = _range("saturation", saturation, 1, 0, math.inf)
        self.hue = _range("hue", hue, 0, -0.5, 0.5)

    def forward(self, img: Any) -> Any:
        """Returns ``img`` with other colours. It is a tensor [..., 3, h, w], an array [h, w, 3] or a PIL image. Values
        are from 0 to 255, or to 1 if they are floating-point numbers."""
        if isinstance(img, torch.Tensor):
            return self._changed(img.movedim(-3, -1)).movedim(-1, -3)
        changed = self._changed(torch.from_numpy(numpy.array(img))).numpy()
        if isinstance(img, numpy.ndarray):
            return changed
        from PIL import Image

        return Image.fromarray(changed, img.mode)

    def _changed(self, pixels: torch.Tensor) -> torch.Tensor:
        if pixels.shape[-1] != 3:
            raise ValueError(f"FusedColorJitter: the image has {pixels.shape[-1]} colours, allowed are 3")
        brightness, contrast, saturation, hue = (
            float(torch.empty(()).uniform_(*one)) for one in (self.brightness, self.contrast, self.saturation, self.hue)
        )
        change = _turned(hue) @ (saturation * torch.eye(3, dtype=torch.float64) + (1 - saturation) * _GREY)
        wide = pixels.to(torch.float64 if pixels.dtype == torch.float64 else torch.float32)
        colours = wide @ (brightness * contrast * change.T).to(wide)
        # Hue and saturation do not change grey, so they do not enter here.
        grey = (wide @ _YIQ[0].to(wide)).mean((-2, -1))[..., None, None, None] * brightness * (1 - contrast)
        out = (colours + grey).clamp(0, 1 if pixels.is_floating_point() else 255)
        return (out if pixels.is_floating_point() else out.round()).to(pixels.dtype)
