# SPDX-License-Identifier: Apache-2.0
"""Decides whether two results count as the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.utils import _pytree as pytree

# Relative to the largest magnitude in a tensor. A whole model with another order of sums stays below, and most errors
# do not.
RTOL = {
    torch.float64: 1e-9,
    torch.float32: 1e-4,
    torch.float16: 1e-2,
    torch.bfloat16: 5e-2,
    torch.complex128: 1e-9,
    torch.complex64: 1e-4,
    torch.complex32: 1e-2,
}


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Two tensors are the same if no element differs by more than ``atol + rtol * max|wanted|``, and NaN and infinities
    stand in the same places. If ``rtol`` is None, ``RTOL`` gives it by type. Whole numbers then have none."""

    rtol: float | None = None
    atol: float = 0.0

    def difference(self, got: Any, want: Any) -> str | None:
        """Describes what differs between two trees of values. None if nothing does."""
        got_leaves, want_leaves = pytree.tree_leaves(got), pytree.tree_leaves(want)
        if len(got_leaves) != len(want_leaves):
            return f"{len(got_leaves)} values instead of {len(want_leaves)}"
        for a, b in zip(got_leaves, want_leaves, strict=True):
            found = self._leaf(a, b)
            if found is not None:
                return found
        return None

    def _leaf(self, got: Any, want: Any) -> str | None:
        if not isinstance(want, torch.Tensor) or not isinstance(got, torch.Tensor):
            same = type(got) is type(want) and (got == want or (got != got and want != want))
            return None if same else f"{got!r} instead of {want!r}"
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            return f"{_kind(got)} instead of {_kind(want)}"
        got, want = plain(got), plain(want)
        if torch.equal(got, want):
            return None
        return self._numbers(got, want)

    def _numbers(self, got: torch.Tensor, want: torch.Tensor) -> str | None:
        dtype = want.dtype
        wide = torch.complex128 if dtype.is_complex else torch.float64
        got, want = got.to(wide), want.to(wide)
        odd = ~(got.isfinite() & want.isfinite())
        wrong = odd & ~((got == want) | (got.isnan() & want.isnan()))
        if wrong.any():
            return _at(wrong, got, want, f"{int(wrong.sum())} of {wrong.numel()} elements are not finite alike")
        distance = (got - want).abs().masked_fill(odd, 0)
        largest = float(want.abs().masked_fill(odd, 0).max())
        allowed = self.atol + (RTOL.get(dtype, 0.0) if self.rtol is None else self.rtol) * largest
        if float(distance.max()) <= allowed:
            return None
        text = f"max|difference| {float(distance.max()):.3g} is over {allowed:.3g}"
        return _at(distance == distance.max(), got, want, text)


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in a strided tensor on the host."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return tensor.cpu().resolve_conj().resolve_neg()


def has_nan(tensor: Any) -> bool:
    """Whether a value is a tensor that has a NaN somewhere."""
    if not isinstance(tensor, torch.Tensor) or not (tensor.is_floating_point() or tensor.is_complex()):
        return False
    tensor = plain(tensor)
    return bool((tensor if tensor.dtype.itemsize > 1 else tensor.float()).isnan().any())


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _at(where: torch.Tensor, got: torch.Tensor, want: torch.Tensor, text: str) -> str:
    place = where.nonzero()[0].tolist()
    a, b = got[tuple(place)].item(), want[tuple(place)].item()
    return f"{text}; at {place} {_number(a)} instead of {_number(b)}"


def _number(value: Any) -> str:
    return f"{value:.6g}"
