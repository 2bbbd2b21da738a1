# SPDX-License-Identifier: Apache-2.0
"""Fills the slots of an operator's template with values of the program and literals."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import torch

DTYPES = (torch.float32, torch.float32, torch.int64, torch.float64, torch.bool, torch.bfloat16, torch.float16)
KNOWN_DTYPES = (*DTYPES, torch.int32)
LITERALS = {"k": (0, 1, 2), "v": (1, 2, -1, 0.5), "w": (2, 0, 3, -1), "q": (0.7, -1.1, 0.3, 3.3), "t": KNOWN_DTYPES}


class Slots:
    """Fills the slots of a template from drawn numbers."""

    def __init__(self, env: dict[str, torch.Tensor], names: list[str], numbers: list[int]) -> None:
        self.env = env
        self.names = names
        self.numbers = iter([*numbers, *numbers, *numbers])
        self.used: dict[str, str] = {}  # slot -> name of the tensor in it
        self.filled: dict[str, str] = {}

    def tensors(self) -> list[torch.Tensor]:
        """Returns the operands of the step. If the step writes, it writes the first one."""
        return [self.env[name] for name in self.used.values()]

    def fill(self, template: str) -> str | None:
        """Returns the source of the step, or None if a slot has no candidate."""
        pieces = list(string.Formatter().parse(template))
        kinds = {name: kind for _, name, kind, _ in reversed(pieces) if name}
        for name in sorted(kinds, key="xyzcidekvwqtnmor".find):
            value = self.tensor(name, kinds[name]) if name in "xyzci" else self.number(name)
            if value is None:
                return None
            self.filled[name] = value
        return "".join(text + (self.filled[name] if name else "") for text, name, _, _ in pieces)

    def tensor(self, slot: str, kind: str) -> str | None:
        x = self.env[self.used["x"]] if "x" in self.used else None
        kind = {"c": "condition", "i": "int"}.get(slot, kind) or "any"
        candidates = [name for name in self.names if _fits(kind, self.env[name], x)]
        if not candidates:
            return None
        # An odd number selects the latest value for x, so that many steps read the result of the step before.
        drawn = next(self.numbers)
        age = 0 if slot == "x" and drawn % 2 else drawn // 2 % len(candidates)
        self.used[slot] = candidates[-1 - age]
        return self.used[slot]

    def number(self, slot: str) -> str | None:
        drawn = next(self.numbers)
        x = self.env[self.used["x"]] if "x" in self.used else torch.empty(())
        if slot == "r":
            return str(x.dim())
        if slot in "de":
            return str(drawn % x.dim()) if x.dim() else None
        if slot in "mo":
            sizes = [f"{name}.shape[{dim}]" for name in self.names for dim in range(self.env[name].dim())]
            return sizes[-1 - drawn % len(sizes)] if sizes else None
        if slot == "n":
            name = self.used.get("x", self.names[0])
            dim = self.env[name].dim()
            return f"{name}.shape[{drawn % dim}]" if dim else None
        return str(LITERALS[slot][drawn % len(LITERALS[slot])])


_FITS: dict[str, Callable[[torch.Tensor, Any], bool]] = {
    "any": lambda t, x: True,
    "number": lambda t, x: t.dtype != torch.bool,
    "float": lambda t, x: t.is_floating_point(),
    "f32": lambda t, x: t.dtype == torch.float32 and t.dim() > 0,
    "int": lambda t, x: t.dtype == torch.int64,
    "bool": lambda t, x: t.dtype == torch.bool,
    "plane": lambda t, x: t.dim() >= 2,
    "matrix": lambda t, x: t.is_floating_point() and t.dim() >= 2,
    "batch": lambda t, x: t.is_floating_point() and t.dim() == 3,
    "broadcast": lambda t, x: _broadcasts(t, x),
    "broadcast_number": lambda t, x: t.dtype != torch.bool and _broadcasts(t, x),
    "condition": lambda t, x: t.dtype == torch.bool and _broadcasts(t, x),
    "same": lambda t, x: t.dtype == x.dtype and t.shape == x.shape,
    "into": lambda t, x: _broadcasts(t, x) and t.dim() <= x.dim(),
    "single": lambda t, x: (
        t.dtype != torch.bool
        and t.dim() == x.dim()
        and t.shape != x.shape
        and all(a in (1, b) for a, b in zip(t.shape, x.shape, strict=True))
    ),
    "row": lambda t, x: x.dim() > 0 and t.shape == x.shape[1:] and t.dtype == x.dtype,
    "tokens": lambda t, x: t.is_floating_point() and t.dim() in (3, 4),
    "signal": lambda t, x: t.is_floating_point() and t.dim() == 3 and t.shape[1] == 4,
    "image": lambda t, x: t.is_floating_point() and t.dim() == 4 and t.shape[1] == 3,
    "beside": lambda t, x: t.dtype == x.dtype and t.dim() == x.dim() > 0 and t.shape[1:] == x.shape[1:],
    "factor": lambda t, x: t.dtype == x.dtype and t.dim() == 2 and t.shape[0] == x.shape[-1],
    "weights": lambda t, x: t.dtype == x.dtype and t.dim() == 2 and t.shape[1] == x.shape[-1],
    "codes": lambda t, x: t.dtype == torch.int64 and t.dim() == 2 and t.shape[1] == x.shape[-1],
    "keys": lambda t, x: t.dtype == x.dtype and t.dim() == x.dim() and _without_length(t) == _without_length(x),
}


def _fits(kind: str, t: torch.Tensor, x: torch.Tensor | None) -> bool:
    return _FITS[kind](t, x)


def _broadcasts(t: torch.Tensor, x: torch.Tensor) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(reversed(t.shape), reversed(x.shape), strict=False))


def _without_length(t: torch.Tensor) -> tuple[int, ...]:
    return *t.shape[:-2], t.shape[-1]
