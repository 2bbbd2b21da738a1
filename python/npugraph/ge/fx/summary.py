# SPDX-License-Identifier: Apache-2.0
"""``debug.fx_summary``: a table of the operators of an FX graph, as a file of comma-separated values. Its words are
Chinese, as in Ascend's file, and it begins with a byte order mark, by which spreadsheets know UTF-8."""

from __future__ import annotations

import collections
import csv
import datetime
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._dtype_abbrs import dtype_abbrs

from npugraph.ge.converters import find
from npugraph.ge.converters.registry import operator_text
from npugraph.ranks import rank

COLUMNS = ("算子", "类型", "支持状态", "调用次数", "输入统计", "输出统计")
SUPPORTED, PARTLY, MISSING, UNKNOWN = "支持", "部分支持", "未实现", "未知"


class Row(NamedTuple):
    """What a graph does with one target. ``state`` is ``SUPPORTED`` if all calls are converted, ``PARTLY`` if the
    target has a converter that refuses some of them, ``MISSING`` for an operator without converter, and ``UNKNOWN``
    for a target that is no operator. ``inputs`` and ``outputs`` are types and sizes, with the number of calls that
    have them."""

    target: str
    kind: str
    state: str
    calls: int
    inputs: str
    outputs: str


def summarise(graph: fx.Graph, missing: Collection[fx.Node]) -> list[Row]:
    """One row for each target of a call, in the order of first calls. ``missing`` are the nodes that are not
    converted."""
    calls: dict[Any, list[fx.Node]] = {}
    for node in graph.nodes:
        if node.op not in ("placeholder", "get_attr", "output"):
            calls.setdefault(node.target, []).append(node)
    return [_row(target, nodes, missing) for target, nodes in calls.items()]


def write(rows: Iterable[Row], directory: str) -> Path:
    """Writes the table to a new file of an existing directory, and returns its path."""
    stamp = datetime.datetime.now().strftime("%Y%m%d%H%M%S%f")
    path = Path(directory) / f"summary_rank_{rank()}_pid_{os.getpid()}_ts_{stamp}.csv"
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return path


def _row(target: Any, nodes: list[fx.Node], missing: Collection[fx.Node]) -> Row:
    inputs = _counted(_text(node.args, node.kwargs) for node in nodes)
    outputs = _counted(_value_text(node.meta.get("val")) for node in nodes)
    name = operator_text(nodes[0]).removeprefix("torch.ops.")
    return Row(name, nodes[0].op, _state(target, nodes, missing), len(nodes), inputs, outputs)


def _state(target: Any, nodes: list[fx.Node], missing: Collection[fx.Node]) -> str:
    if not any(node in missing for node in nodes):
        return SUPPORTED
    if find(target) is not None:
        return PARTLY
    return MISSING if isinstance(target, torch._ops.OpOverload) else UNKNOWN


def _counted(texts: Iterable[str]) -> str:
    return "; ".join(f"{count}x ({text})" for text, count in collections.Counter(texts).items())


def _text(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    named = (f"{name}={_argument_text(argument)}" for name, argument in kwargs.items())
    return ", ".join([*map(_argument_text, args), *named])


def _argument_text(argument: Any) -> str:
    if isinstance(argument, (list, tuple)):
        return f"[{', '.join(map(_argument_text, argument))}]"
    return _value_text(argument.meta.get("val")) if isinstance(argument, fx.Node) else str(argument)


def _value_text(value: Any) -> str:
    """Types and sizes of tensors: f32[4, s0]."""
    leaves = pytree.tree_leaves(value)
    texts = [f"{dtype_abbrs[x.dtype]}{list(x.shape)}" if isinstance(x, torch.Tensor) else str(x) for x in leaves]
    return ", ".join(texts)
