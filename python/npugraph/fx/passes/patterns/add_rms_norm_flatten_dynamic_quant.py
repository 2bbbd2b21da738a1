# SPDX-License-Identifier: Apache-2.0
"""A norm whose result is quantised as rows of a matrix -> one operator, and views of its results.

    y, _, x = npu_add_rms_norm(x1, x2, gamma)        q, _, x, s, _ = npu_add_rms_norm_dynamic_quant(
    q, s = npu_dynamic_quant(y.flatten(0, 1))    ->      x1, x2, gamma, output_mask=[True, False])
    scale = s.view(-1, 1)                            q = q.flatten(0, 1); scale = s.view(-1, 1)

The pattern is an object and not a traced function, because sizes may be symbols and graphs write products of symbols in
several ways.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch._inductor.pattern_matcher import CallFunction, Ignored, KeywordArg, Match, MultiOutputPattern

from npugraph.fx.passes.conditions import Condition
from npugraph.fx.passes.patterns.rules import EPSILON, add, call_of, examples, npu, of_positional, value_of

aten = torch.ops.aten


def _pattern(*epsilon: KeywordArg) -> MultiOutputPattern:
    operands = [KeywordArg(name) for name in ("x1", "x2", "gamma")]
    norm = CallFunction(npu.npu_add_rms_norm.default, *operands, *epsilon, _users=2)
    rows = CallFunction(aten.view.default, CallFunction(operator.getitem, norm, 0), Ignored())
    quant = CallFunction(npu.npu_dynamic_quant.default, rows, _users=2)
    column = CallFunction(aten.view.default, CallFunction(operator.getitem, quant, 1), Ignored())
    return MultiOutputPattern(
        [CallFunction(operator.getitem, quant, 0), CallFunction(operator.getitem, norm, 2), column]
    )


def _replace(x1: Any, x2: Any, gamma: Any, **epsilon: float) -> Any:
    quantised, _, x, scale, _ = npu.npu_add_rms_norm_dynamic_quant(x1, x2, gamma, **epsilon, output_mask=[True, False])
    return quantised.flatten(0, 1), x, scale.view(-1, 1)


def _views(match: Match) -> tuple[fx.Node, fx.Node]:
    """The view that is quantised, and the view of the scales."""
    rows = call_of(match, npu.npu_dynamic_quant.default).args[0]
    (column,) = (node for node in match.nodes if node.target is aten.view.default and node is not rows)
    return rows, column


def _merges_first_two(match: Match) -> bool:
    rows, _ = _views(match)
    first, second, *rest = value_of(rows.args[0]).shape
    return tuple(value_of(rows).shape) == (first * second, *rest)


def _is_column(match: Match) -> bool:
    _, column = _views(match)
    (rows,) = value_of(column.args[0]).shape
    return tuple(value_of(column).shape) == (rows, 1)


def _shapes(node: fx.Node) -> str:
    return f"{node.name} makes {tuple(value_of(node).shape)} of {tuple(value_of(node.args[0]).shape)}"


_CONDITIONS = [
    Condition(
        "the norm's result has three dimensions",
        lambda match: value_of(_views(match)[0].args[0]).dim() == 3,
        lambda match: f"it has {value_of(_views(match)[0].args[0]).dim()}",
    ),
    Condition(
        "the norm's result is viewed with its first two dimensions merged",
        _merges_first_two,
        lambda match: _shapes(_views(match)[0]),
    ),
    Condition("the scales are viewed as a column", _is_column, lambda match: _shapes(_views(match)[1])),
]


def register() -> None:
    name, names = "add_rms_norm_flatten_dynamic_quant", ["x1", "x2", "gamma"]
    inputs = examples((2, 3, 32), (2, 3, 32), (32,))
    replace = of_positional(_replace, names)
    add(name, replace, replace, inputs, _CONDITIONS, _pattern())
    replace = of_positional(_replace, [*names, "epsilon"])
    add(f"{name}_epsilon", replace, replace, [*inputs, EPSILON], _CONDITIONS, _pattern(KeywordArg("epsilon")))
