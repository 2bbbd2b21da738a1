# SPDX-License-Identifier: Apache-2.0
"""Batched products whose result, and perhaps whose first operand, is transposed -> one operator.

    y = bmm(x1, x2)                       ->    y = npu_transpose_batchmatmul(x1, x2, perm_x1=[0, 1, 2])
    z = transpose(y, 0, 1)

    t = transpose(x1, 0, 1)               ->    y = npu_transpose_batchmatmul(x1, x2, perm_x1=[1, 0, 2])
    y = bmm(expand(t, [b, m, k]), x2)
    z = transpose(y, 0, 1)

Other rules match both forms with views between the operators that change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._inductor.pattern_matcher import CallFunction, Ignored, KeywordArg, Match

from npugraph.fx.passes.conditions import Condition
from npugraph.fx.passes.patterns.rules import add, call_of, examples, npu, value_of

aten = torch.ops.aten
_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_BLOCK = 128
_LIMIT = 65536


def _view(x: Any) -> CallFunction:
    return CallFunction(aten.view.default, x, Ignored())


def _transpose(x: Any) -> CallFunction:
    return CallFunction(aten.transpose.int, x, Ignored(), Ignored())


def _bmm(x: Any) -> CallFunction:
    return CallFunction(aten.bmm.default, x, KeywordArg("x2"))


def _expanded() -> CallFunction:
    return CallFunction(aten.expand.default, _transpose(KeywordArg("x1")), Ignored())


def _changes(match: Match) -> list[fx.Node]:
    kept = (node for node in match.nodes if node.target in (aten.view.default, aten.expand.default))
    return [node for node in kept if tuple(value_of(node).shape) != tuple(value_of(node.args[0]).shape)]


def _exchanges_first_two(node: fx.Node) -> bool:
    value = value_of(node.args[0])
    dims = [dim % value.dim() for dim in node.args[1:3] if isinstance(dim, int)]
    return value.dim() == 3 and sorted(dims) == [0, 1]


def _transposes(match: Match) -> list[fx.Node]:
    return [node for node in match.nodes if node.target is aten.transpose.int]


def _operands(match: Match) -> tuple[torch.Tensor, torch.Tensor]:
    product = call_of(match, aten.bmm.default)
    return value_of(product.args[0]), value_of(product.args[1])


def _is_blocked(match: Match) -> bool:
    x1, x2 = _operands(match)
    return bool(x1.shape[-1] % _BLOCK == 0) and bool(x2.shape[-1] % _BLOCK == 0)


def _is_below(match: Match) -> bool:
    """Whether the summed size is within the limit. Adds guards if sizes are symbolic."""
    x1, _ = _operands(match)
    batches, _, inner = x1.shape
    size = inner * batches if len(_transposes(match)) == 2 else inner
    return bool(size >= 1) and bool(size < _LIMIT)


def _sizes(match: Match) -> str:
    x1, x2 = _operands(match)
    return f"they are {tuple(x1.shape)} and {tuple(x2.shape)}"


_CONDITIONS = [
    Condition(
        "both operands are of bfloat16, float16 or float32",
        lambda match: all(x.dtype in _DTYPES for x in _operands(match)),
        lambda match: f"they are of {_operands(match)[0].dtype} and {_operands(match)[1].dtype}",
    ),
    Condition(
        "views and expand change nothing",
        lambda match: not _changes(match),
        lambda match: ", ".join(f"{node.name} changes {node.args[0]}" for node in _changes(match)),
    ),
    Condition(
        "transpose exchanges the first two of three dimensions",
        lambda match: all(map(_exchanges_first_two, _transposes(match))),
        lambda match: ", ".join(f"{node.name} exchanges {list(node.args[1:])}" for node in _transposes(match)),
    ),
    Condition(f"the last sizes of both operands are multiples of {_BLOCK}", _is_blocked, _sizes),
    Condition(
        f"the summed size, times the batches where x1 is transposed, is from 1 to {_LIMIT - 1}", _is_below, _sizes
    ),
]

_AS_IS, _TRANSPOSED = [0, 1, 2], [1, 0, 2]

# The forms are tried in this order.
_FORMS = (
    (
        "transpose_expand_view_bmm_view_transpose",
        lambda: _transpose(_view(_bmm(_view(_expanded())))),
        _TRANSPOSED,
    ),
    ("transpose_expand_bmm_transpose", lambda: _transpose(_bmm(_expanded())), _TRANSPOSED),
    ("bmm_transpose", lambda: _transpose(_bmm(KeywordArg("x1"))), _AS_IS),
    ("bmm_view_transpose", lambda: _transpose(_view(_bmm(KeywordArg("x1")))), _AS_IS),
)


def _replacement(perm: list[int]) -> Callable[..., Any]:
    def replace(x1: Any, x2: Any) -> Any:
        return npu.npu_transpose_batchmatmul(x1, x2, perm_x1=perm)

    return replace


def register() -> None:
    for name, pattern, perm in _FORMS:
        replace = _replacement(perm)
        add(name, replace, replace, examples((2, 2, 2), (2, 2, 2)), _CONDITIONS, pattern())
