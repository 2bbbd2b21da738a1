# SPDX-License-Identifier: Apache-2.0
"""What computes an operator that the engine has no rule for: a function of torch of the operands, which is traced.

    y = ge.Erfinv(x)
    computed_by(y, aten.erfinv.default, x)

The trace becomes parts of the operator (``npugraph.ge.fx.operator_parts``). A tensor among the operands is an input of
the operator, or the function reads nothing but its sizes, and an input of the operator is a list of these. A function
that is an operator of torch, or ``calls`` some, leaves these to the host, so only a process with torch runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from npugraph.ge.graph import Tensor, current_graph


class Computation(NamedTuple):
    """``results`` are outputs of one operator, or None. ``function`` returns their values, or a value for a single
    one. Operators of torch among ``calls`` are the host's."""

    results: tuple[Tensor | None, ...]
    function: Callable[..., Any]
    args: tuple[Any, ...]
    calls: frozenset[Any]


def computed_by(results: Any, function: Callable[..., Any], *args: Any, calls: Sequence[Any] = ()) -> Any:
    """Says that ``function``, which is defined once in the process, computes ``results`` of ``args``: tensors of the
    graph, numbers, and lists of these. Returns the results."""
    made = (results,) if isinstance(results, Tensor) else tuple(results)
    named = [function] if isinstance(function, torch._ops.OpOverload) else calls
    current_graph().computations.append(Computation(made, function, args, frozenset(named)))
    return results
