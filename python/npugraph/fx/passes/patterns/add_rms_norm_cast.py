# SPDX-License-Identifier: Apache-2.0
"""A norm whose result is returned and also converted to float32 -> one operator that gives both.

    y, _, x = npu_add_rms_norm(x1, x2, gamma)        y32, y, _, x = npu_add_rms_norm_cast(x1, x2, gamma)
    y32 = y.to(torch.float32)                    ->

Other rules match the conversion of ``y.view(-1, h)``, where h is the last size of y. The conversion is
``aten._to_copy`` or ``npu._npu_dtype_cast``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._inductor.pattern_matcher import Match

from npugraph.fx.passes.conditions import Condition
from npugraph.fx.passes.patterns.rules import add_with_epsilon, call_of, examples, npu

aten = torch.ops.aten


def _to_copy(x: torch.Tensor) -> torch.Tensor:
    return aten._to_copy(x, dtype=torch.float32)


def _dtype_cast(x: torch.Tensor) -> torch.Tensor:
    return npu._npu_dtype_cast(x, torch.float32)


def _whole(x: torch.Tensor) -> torch.Tensor:
    return x


def _rows(x: torch.Tensor) -> torch.Tensor:
    return x.view(-1, x.shape[-1])


def _search_for(cast: Callable[..., Any], shaped: Callable[..., Any]) -> Callable[..., Any]:
    def search(x1: Any, x2: Any, gamma: Any, **epsilon: float) -> Any:
        y, _, x = npu.npu_add_rms_norm(x1, x2, gamma, **epsilon)
        return cast(shaped(y)), y, x

    return search


def _replace_for(shaped: Callable[..., Any]) -> Callable[..., Any]:
    def replace(x1: Any, x2: Any, gamma: Any, **epsilon: float) -> Any:
        y32, y, _, x = npu.npu_add_rms_norm_cast(x1, x2, gamma, **epsilon)
        return shaped(y32), y, x

    return replace


def _readers(match: Match) -> list[fx.Node]:
    norm = call_of(match, npu.npu_add_rms_norm.default)
    (y,) = (item for item in norm.users if item.args[1] == 0)
    return list(y.users)


_two_readers = Condition(
    "the norm's result has two readers, the conversion and another",
    lambda match: len(_readers(match)) == 2,
    lambda match: f"it has {len(_readers(match))}",
)


def register() -> None:
    inputs = examples((2, 3, 32), (2, 3, 32), (32,))
    for shape, shaped in (("view_", _rows), ("", _whole)):
        for kind, cast in (("to_copy", _to_copy), ("dtype_cast", _dtype_cast)):
            name = f"add_rms_norm_{shape}cast_{kind}"
            add_with_epsilon(name, _search_for(cast, shaped), _replace_for(shaped), inputs, [_two_readers])
