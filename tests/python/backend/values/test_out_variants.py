# SPDX-License-Identifier: Apache-2.0
"""Out-variants of ATen that Programs call write all elements of their results and nothing else, wherever the elements
lie: for every call that operators of the database and their gradients make. An operator that fails here belongs into a
list of src/backend/bridge/catalog.cc."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from npugraph import _C
from tests.python import layouts
from tests.python.backend.values.test_strides import NAMES

AROUND = 4096  # watched elements on each side of a result
FILLED = 93  # the value of their bytes


def fillings(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields tensors of the sizes of ``tensor`` in all layouts, in a watched buffer."""
    for lay_out in layouts.LAYOUTS.values():
        yield watched(tensor.shape, lay_out(tensor).stride(), tensor)
    # Nobody reads strides of dimensions of size 1.
    strange = [37 if size == 1 else stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    if strange != list(tensor.stride()):
        yield watched(tensor.shape, strange, tensor)


def watched(sizes: Sequence[int], strides: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    room = 2 * AROUND + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return (
        torch.full((room * like.itemsize,), FILLED, dtype=torch.uint8)
        .view(like.dtype)[AROUND:]
        .as_strided(sizes, strides)
    )


def misses(out: torch.Tensor, expected: torch.Tensor) -> str | None:
    """Says how ``out`` is wrong: in its elements, or in those around it."""
    if not torch.allclose(out.double(), expected.double(), rtol=1e-3, atol=1e-4, equal_nan=True):
        return "other elements"
    whole = torch.empty(0, dtype=torch.uint8).set_(out.untyped_storage())
    codes = out.view(torch.uint8) if out.dtype is torch.bool else out  # a copied bool is 0 or 1
    codes.copy_(torch.full_like(whole, FILLED).view(codes.dtype).as_strided(out.shape, out.stride()))
    return None if bool((whole == FILLED).all()) else "elements beside the result"


class Comparison(TorchDispatchMode):
    """Calls out-variants, too, and collects their differences."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        real = func(*args, **(kwargs or {}))
        results = list(real) if isinstance(real, (tuple, list)) else [real]
        variant = out_variant(func)
        if variant is not None and all(isinstance(each, torch.Tensor) and each.numel() for each in results):
            for outs in zip(*map(fillings, results), strict=False):
                self._compare(variant, args, kwargs or {}, results, outs)
        return real

    def _compare(self, variant: Any, args: Any, kwargs: Any, results: Any, outs: Sequence[torch.Tensor]) -> None:
        overload, names = variant
        before = [out.stride() for out in outs]
        with contextlib.suppress(Exception):
            overload(*args, **kwargs, **dict(zip(names, outs, strict=True)))
            self.calls += 1
            for number, (out, expected, strides) in enumerate(zip(outs, results, before, strict=True)):
                if out.stride() == strides and (how := misses(out, expected)):
                    text = f"{overload}: {how}, result {number}: {list(out.shape)}, strides {strides}"
                    self.found.setdefault(str(overload), text)


@functools.cache
def out_variant(func: Any) -> tuple[Any, list[str]] | None:
    """Returns the out-variant of ``func`` that Programs call for results of any strides, with the names of the
    arguments that take the results."""
    found = _C.out_variant(str(func))
    if found is None or not found[1] or torch.Tag.nondeterministic_seeded in func.tags:
        return None
    overload = getattr(func.overloadpacket, found[0].rpartition(".")[2])
    return overload, [one.name for one in overload._schema.arguments if one.alias_info and one.alias_info.is_write]


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_results_in_all_layouts(dtype: torch.dtype) -> None:
    comparison = Comparison()
    for name in NAMES:
        for values in layouts.sampled(name, dtype, 25):
            with contextlib.suppress(Exception), comparison:
                layouts.run_sample(name, values)
    assert comparison.calls > 100
    assert not comparison.found, "\n".join(comparison.found.values())
