# SPDX-License-Identifier: Apache-2.0
"""Draws sizes, dtypes, memory layouts and options of calls of operators. The calls are in calls_of_*.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

from tests.python.device import npu_operators

Call = tuple[tuple[Any, ...], dict[str, Any]]
LAYOUTS = ("contiguous", "contiguous", "contiguous", "turned", "sliced", "expanded")


class Draw:
    """Draws the parts of a call. Tensors are npu tensors."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def size(self, low: int = 1, high: int = 5) -> int:
        return self._draw(st.integers(low, high))

    def rows(self) -> int:
        """Draws a number of rows, which may be 0."""
        return self.size(0)

    def sizes(self, fewest: int = 1, most: int = 3) -> tuple[int, ...]:
        """Draws the sizes of the dimensions before the last one."""
        return tuple(self._draw(st.lists(st.integers(0, 4), min_size=fewest, max_size=most)))

    def choice(self, *values: Any) -> Any:
        return self._draw(st.sampled_from(values))

    def flag(self) -> bool:
        return self._draw(st.booleans())

    def maybe(self, value: Callable[[], Any]) -> Any:
        return value() if self.flag() else None

    def given(self, **values: Callable[[], Any]) -> dict[str, Any]:
        """Draws which of these arguments are given."""
        return {name: value() for name, value in values.items() if self.flag()}

    def dtype(self) -> torch.dtype:
        return self.choice(*npu_operators.FLOATING)

    def normal(self, *size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return self._laid_out(npu_operators.normal(*size, dtype=dtype))

    def positive(self, *size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return self._laid_out((npu_operators.normal(*size).abs() + 0.1).to(dtype))

    def integers(self, low: int, high: int, *size: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """Returns integers in [low, high), in a drawn layout."""
        return self._laid_out(npu_operators.integers(low, high, *size, dtype=dtype))

    def int8(self, *size: int) -> torch.Tensor:
        return self.integers(-128, 128, *size, dtype=torch.int8)

    def _laid_out(self, x: torch.Tensor) -> torch.Tensor:
        layout = self.choice(*LAYOUTS) if x.dim() > 0 and x.numel() > 0 else "contiguous"
        if layout == "turned":
            return x.transpose(0, -1).contiguous().npu().transpose(0, -1)
        if layout == "sliced":
            return torch.stack([x, x], -1).flatten(-2).npu()[..., ::2]
        if layout == "expanded":
            return x[:1].npu().expand(x.shape)
        return x.npu()


def written(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Returns an argument that the operator writes."""
    return torch.zeros(size, dtype=dtype).npu()


def whole(values: list[Any], dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype).npu()


CALLS: dict[str, Callable[[Draw], Call]] = {}


def call(*names: str) -> Callable[[Callable[[Draw], Call]], Callable[[Draw], Call]]:
    """Decorator: the function draws the calls of the operators ``names`` of ``torch_npu``."""

    def add(make: Callable[[Draw], Call]) -> Callable[[Draw], Call]:
        CALLS.update(dict.fromkeys(names, make))
        return make

    return add


def calls(name: str) -> st.SearchStrategy[Call]:
    return st.composite(lambda draw: CALLS[name](Draw(draw)))()
