# SPDX-License-Identifier: Apache-2.0
"""Corrects the fake tensors of operators that really return something else on the CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from npugraph import _C
from npugraph.fx.gaps import close_gaps
from npugraph.fx.output_strides import keep_strides, results
from npugraph.fx.own_memory import with_own_memory
from npugraph.fx.schema import is_of_ascend, is_of_user
from npugraph.fx.true_strides import CORRECTED, with_true_strides

aten = torch.ops.aten

_REDUCED = (torch.bfloat16, torch.float16)
_QUANTIZED = (torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4)
_LEAVES_QUANTIZED = {
    "aten::dequantize",
    "aten::int_repr",
    "aten::q_per_channel_scales",
    "aten::q_per_channel_zero_points",
}


@dataclasses.dataclass(frozen=True)
class _Norm:
    """Positions of the arguments of a normalisation: the input, its parameters, and for a backward operator its saved
    statistics."""

    input: int
    parameters: range
    statistics: range | None = None  # None: they are the results 1 and 2


_NORMS = {
    aten.native_layer_norm.default: _Norm(0, range(2, 4)),
    aten.native_group_norm.default: _Norm(0, range(1, 3)),
    aten.native_batch_norm.default: _Norm(0, range(1, 5)),
    aten._native_batch_norm_legit.default: _Norm(0, range(1, 5)),
    aten._native_batch_norm_legit_functional.default: _Norm(0, range(1, 5)),
    aten._native_batch_norm_legit_no_training.default: _Norm(0, range(1, 5)),
    aten.native_layer_norm_backward.default: _Norm(1, range(5, 7), range(3, 5)),
    aten.native_group_norm_backward.default: _Norm(1, range(4, 5), range(2, 4)),
    aten.native_batch_norm_backward.default: _Norm(1, range(2, 5), range(5, 7)),
}


def correct_values(graph: fx.Graph) -> None:
    """Corrects wrong values in ``node.meta["val"]``, and the values that were computed from them.

    Results keep the strides that they had. Whoever made the graph relied on these: a ``contiguous()`` of a tensor that
    seemed to be contiguous is not in the graph."""
    promised = results(graph)
    _correct(graph.nodes)
    keep_strides(graph, promised)
    close_gaps(graph)


def _correct(nodes: Iterable[fx.Node]) -> None:
    changed: set[fx.Node] = set()
    for node in nodes:
        norm = _NORMS.get(node.target)
        if norm is not None:
            changed |= _correct_norm(node, norm)
        elif _has_quantized_results(node):
            node.meta["val"] = pytree.tree_map_only(
                torch.Tensor, lambda _: _C.Opaque("quantized"), node.meta.get("val")
            )
        else:
            if not changed.isdisjoint(node.all_input_nodes) and _compute_again(node):
                changed.add(node)
            if _correct_strides(node) or _correct_memory(node):
                changed.add(node)


def _correct_norm(node: fx.Node, norm: _Norm) -> set[fx.Node]:
    """Under autocast the input has fewer bits than the parameters. Statistics then have the dtype of the parameters."""
    parameters = [arg.meta["val"].dtype for arg in _nodes(node, norm.parameters)]
    dtype = node.args[norm.input].meta["val"].dtype
    if not parameters or dtype not in _REDUCED or parameters[0] == dtype:
        return set()
    result, *others = node.meta["val"]
    if norm.statistics is None:
        node.meta["val"] = (result, *(value.to(parameters[0]) for value in others))
        return {node}
    statistics = [origin for arg in _nodes(node, norm.statistics) for origin in _origins(arg)]
    for statistic in statistics:
        statistic.meta["val"] = statistic.meta["val"].to(parameters[0])
    if result is not None:
        node.meta["val"] = (result.to(dtype), *others)
    return {node, *statistics}


def _correct_strides(node: fx.Node) -> bool:
    if node.target not in CORRECTED:
        return False
    before = node.meta["val"]
    node.meta["val"] = with_true_strides(node.target, fx.map_arg(node.args, lambda n: n.meta["val"]), before)
    return node.meta["val"] is not before


def _correct_memory(node: fx.Node) -> bool:
    if not is_of_user(node.target):
        return False
    before = node.meta.get("val")
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
    node.meta["val"] = with_own_memory(node.target, args, kwargs, before)
    return node.meta["val"] is not before


def _origins(node: fx.Node) -> list[fx.Node]:
    """The node, and the nodes that it is an alias of."""
    origins = [node]
    while origins[-1].target in (aten.detach.default, aten.alias.default):
        origins.append(origins[-1].args[0])
    return origins


def _compute_again(node: fx.Node) -> bool:
    """Evaluates the node again, if that is possible. Returns whether it did."""
    if not callable(node.target) or node.meta.get("unbacked_bindings"):
        return False
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    node.meta["val"] = node.target(*args, **kwargs)
    return True


def _nodes(node: fx.Node, positions: range) -> list[fx.Node]:
    return [arg for arg in node.args[positions.start : positions.stop] if isinstance(arg, fx.Node)]


def _has_quantized_results(node: fx.Node) -> bool:
    """Whether results are quantised tensors. Fake tensors then have the dtype of the values that these stand for. To
    Ascend's operators, torch.qint8 means plain integers."""
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.name in _LEAVES_QUANTIZED:
        return False
    if is_of_ascend(node.target):
        return False
    if any(arg in _QUANTIZED for arg in (*node.args, *node.kwargs.values()) if isinstance(arg, torch.dtype)):
        return True
    return any(_is_opaque(operand) for operand in node.all_input_nodes)


def _is_opaque(node: fx.Node) -> bool:
    value: Any = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return False
    return any(isinstance(leaf, _C.Opaque) for leaf in pytree.tree_leaves(value))
