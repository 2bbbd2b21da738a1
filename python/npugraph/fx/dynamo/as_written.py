# SPDX-License-Identifier: Apache-2.0
"""Graphs of Dynamo that have to run as they were written, because AOTAutograd would compute something else."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import fx

from npugraph.fx.values import is_strided

_RESIZES = {"as_strided_", "resize_", "resize_as_", "squeeze_", "unsqueeze_"}
_TURNS = {"swapaxes_", "swapdims_", "t_", "transpose_", *_RESIZES}


class AsWritten(NamedTuple):
    """Why a graph runs as it was written: the counter of its calls, and a text for people."""

    counter: str
    text: str


def why_as_written(graph: fx.Graph) -> AsWritten | None:
    """The first reason that a graph has; None for almost all graphs."""
    if (node := _written_and_turned(graph)) is not None:
        return AsWritten("turned_inputs", f"{node} changes the strides of a written input")
    if (node := _retyped_result(graph)) is not None:
        return AsWritten("retyped_results", f"{node} views an input as another type")
    if (node := _lost_write(graph)) is not None:
        return AsWritten("lost_writes", f"Dynamo would lose {node}, the write of a number")
    return None


def _written_and_turned(graph: fx.Graph) -> fx.Node | None:
    """The first node that changes sizes or strides of an input which the graph writes before: ``x.mul_(2).t_()``.
    AOTAutograd copies the new values into the input as it was before, or to the start of its storage. Dynamo ends its
    graph where this is done to an input that was not written."""
    return next((node for node in graph.nodes if _method(node) in _TURNS and _written(node).op == "placeholder"), None)


def _written(node: fx.Node) -> fx.Node:
    """The tensor that methods write, each the result of the one before."""
    while _method(node).endswith("_"):
        node = node.args[0]
    return node


def _method(node: fx.Node) -> str:
    return node.target if node.op == "call_method" else ""


def _retyped_result(graph: fx.Graph) -> fx.Node | None:
    """The first result with symbolic sizes that views an input as another type: ``x.view(torch.int16)[: n]``. Where
    sizes change, AOTAutograd makes such a view of the input again, from the sizes, strides and offset of the result,
    which count elements of the other type. Real parts of complex inputs are no such results: AOTAutograd knows them."""
    inputs = [value for node in graph.find_nodes(op="placeholder") if is_strided(value := _traced(node))]
    types = {value.untyped_storage()._cdata: value.dtype for value in inputs}
    for node in graph.output_node().all_input_nodes:
        value = _traced(node)
        if is_strided(value) and _has_symbols(value):
            of_input = types.get(value.untyped_storage()._cdata, value.dtype)
            if value.dtype not in (of_input, of_input.to_real()):
                return node
    return None


def _has_symbols(value: torch.Tensor) -> bool:
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    return any(isinstance(number, torch.SymInt) for number in numbers)


def _lost_write(graph: fx.Graph) -> fx.Node | None:
    """The first call that writes a number and whose result nobody uses: ``n.add_(1)`` where ``n`` has no dimensions, is
    of type float64 and lies on the cpu. AOTAutograd starts Dynamo again for such a tensor, because it could be a Python
    float, and Dynamo then takes calls whose results nobody uses out of the graph."""
    return next((node for node in graph.nodes if not node.users and _is_written_number(node)), None)


def _is_written_number(node: fx.Node) -> bool:
    """Whether the result of a call is the number that it was given, as ``add_``, ``+=`` and ``out=`` return it."""
    value = node.meta.get("example_value")
    given = (argument.meta.get("example_value") for argument in node.all_input_nodes)
    if not isinstance(value, torch.Tensor) or all(one is not value for one in given):
        return False
    return value.dim() == 0 and value.dtype == torch.float64 and value.device.type == "cpu"


def _traced(node: fx.Node) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))
