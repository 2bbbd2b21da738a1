# SPDX-License-Identifier: Apache-2.0
"""A norm whose result is quantised with given scales -> one operator.

    y, _, x = npu_add_rms_norm(x1, x2, gamma)        q, _, x = npu_add_rms_norm_quant(
    q = npu_quantize(y, scales, zero_points,     ->      x1, x2, gamma, scales, zero_points, axis=-1)
                     torch.int8, -1, True)

A second rule matches graphs that do not use the sum x.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.pattern_matcher import Match

from npugraph.fx.passes.conditions import Condition
from npugraph.fx.passes.patterns.rules import add_with_epsilon, examples, npu, some_results, value_of

_ALIGNMENT = 32  # bytes
_INT8 = (1, 12)  # codes of int8 and qint8; npu_quantize gives a tensor of int8 for both


def _search(x1: Any, x2: Any, gamma: Any, scales: Any, zero_points: Any, dtype: int, **epsilon: float) -> Any:
    y, _, x = npu.npu_add_rms_norm(x1, x2, gamma, **epsilon)
    return npu.npu_quantize(y, scales, zero_points, dtype, -1, True), x


def _replace(x1: Any, x2: Any, gamma: Any, scales: Any, zero_points: Any, dtype: int, **epsilon: float) -> Any:
    quantised, _, x = npu.npu_add_rms_norm_quant(x1, x2, gamma, scales, zero_points, axis=-1, **epsilon)
    return quantised, x


def _dtype(match: Match, name: str) -> Any:
    value = value_of(match.kwargs.get(name))
    return value if value is None else value.dtype


def _row_bytes(match: Match) -> Any:
    x1 = value_of(match.kwargs["x1"])
    return x1.shape[-1] * x1.element_size()


def _is_aligned(match: Match) -> bool:
    return isinstance(_row_bytes(match), int) and _row_bytes(match) % _ALIGNMENT == 0


def _shape(match: Match, name: str) -> tuple[Any, ...]:
    return tuple(value_of(match.kwargs[name]).shape)


_CONDITIONS = [
    Condition(
        "zero_points are not of type int8 or uint8",
        lambda match: _dtype(match, "zero_points") not in (torch.int8, torch.uint8),
        lambda match: f"they are of {_dtype(match, 'zero_points')}",
    ),
    Condition(
        "the type that is asked for is int8 or qint8",
        lambda match: match.kwargs["dtype"] in _INT8,
        lambda match: f"it is {match.kwargs['dtype']}",
    ),
    Condition(
        "x1 and x2 are both of float16 or both of bfloat16",
        lambda match: (
            _dtype(match, "x1") == _dtype(match, "x2") and _dtype(match, "x1") in (torch.float16, torch.bfloat16)
        ),
        lambda match: f"they are of {_dtype(match, 'x1')} and {_dtype(match, 'x2')}",
    ),
    Condition(
        f"a row has a fixed number of bytes, a multiple of {_ALIGNMENT}",
        _is_aligned,
        lambda match: f"it has {_row_bytes(match)}",
    ),
    Condition(
        "gamma and scales have one shape",
        lambda match: _shape(match, "gamma") == _shape(match, "scales"),
        lambda match: f"they have {_shape(match, 'gamma')} and {_shape(match, 'scales')}",
    ),
]


def register() -> None:
    inputs = examples((2, 32), (2, 32), (32,), (32,), (32,))
    for name, results in (("add_rms_norm_quantize", (0, 1)), ("add_rms_norm_quantize_no_sum", (0,))):
        search, replace = (some_results(function, *results) for function in (_search, _replace))
        add_with_epsilon(name, search, replace, inputs, _CONDITIONS, numbers={"dtype": _INT8[1]})
