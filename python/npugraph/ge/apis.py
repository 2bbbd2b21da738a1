# SPDX-License-Identifier: Apache-2.0
"""One builder for each operator of Ascend IR, under its name: ``apis.SoftmaxV2(x, axes=[-1])`` is
``ge_op("SoftmaxV2", x, axes=[-1])``. Cast, Const and the inputs and outputs of graphs have forms of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from npugraph.ge import ir
from npugraph.ge.builders import Cast, Clone, ge_op
from npugraph.ge.const import Const
from npugraph.ge.graph import Data, NetOutput, RefData

__all__ = ["Cast", "Clone", "Const", "Data", "NetOutput", "RefData"]


@functools.cache
def _builder(name: str) -> Callable[..., Any] | None:
    operator = ir.find(name)
    if operator is None:
        return None

    def build(*args: Any, **named: Any) -> Any:
        return ge_op(name, *args, **named)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"``{operator.text}``, by ``ge_op``."
    return build


def __getattr__(name: str) -> Any:
    builder = _builder(name)
    if builder is None:
        raise AttributeError(f"Ascend IR has no operator {name!r}")
    return builder


def __dir__() -> list[str]:
    return sorted({*__all__, *ir.names()})
