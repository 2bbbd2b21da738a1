# SPDX-License-Identifier: Apache-2.0
"""Corrects the fake tensors of operators that really return something else on the CPU, and keeps the strides of results
whatever operators passes put in."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from npugraph import _C
from npugraph.fx.nodes import evaluate_view, is_view_of
from npugraph.fx.schema import is_of_ascend, is_of_user, is_view
from npugraph.fx.true_strides import CORRECTED, with_true_strides
from npugraph.fx.values import (
    closed,
    expressions,
    is_operator,
    is_strided,
    laid_out_as,
    makes_tensors,
    takes_any_strides,
)


def with_own_memory(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Any) -> Any:
    """Returns the fake ``results`` of a call of an operator of the user. Those that are new tensors by the schema, and
    yet lie in the memory of an argument, are replaced by tensors like them. Meta functions that return their argument
    are common (``lambda x: x`` for "a tensor like x"), and the schema is right about what the graph may rely on."""
    if not is_of_user(func):
        return results
    given = {
        tensor.untyped_storage()._cdata for tensor in pytree.tree_leaves((args, dict(kwargs))) if is_strided(tensor)
    }
    if not given:
        return results
    declared = func._schema.returns
    if not isinstance(results, (tuple, list)) or len(results) != len(declared) or len(declared) == 1:
        return _fresh(results, given, declared[0]) if declared else results
    fresh = [_fresh(value, given, item) for value, item in zip(results, declared, strict=True)]
    return _unless_same(results, fresh)


def _fresh(value: Any, given: set[int], declared: Any) -> Any:
    if declared.alias_info is not None:
        return value
    if isinstance(value, (tuple, list)):
        return _unless_same(value, [_fresh(item, given, declared) for item in value])
    if not is_strided(value) or value.untyped_storage()._cdata not in given:
        return value
    return value.new_empty_strided(value.shape, value.stride())


def _unless_same(values: Any, fresh: list[Any]) -> Any:
    """``values``, or a sequence of their type with ``fresh`` values if one of these is another."""
    return values if all(map(operator.is_, values, fresh)) else type(values)(fresh)


# Strides of results, whatever operators passes put in:
#
#     y = npu_transpose_batchmatmul(x, w)              y = npu_transpose_batchmatmul(x, w)
#     return y                                   ->    p = permute(y, [1, 0, 2])
#                                                      c = clone(p, memory_format=torch.contiguous_format)
#                                                      q = permute(c, [1, 0, 2])
#                                                      return q
#
# The graph passes remove the copies that are not needed.


def results(graph: fx.Graph) -> list[Any]:
    """The values that the graph returns, in order. None for a value that is no tensor with strides."""
    return [_strided(node) for node in _returned(graph)]


def keep_strides(graph: fx.Graph, before: list[Any]) -> None:
    """Restores the strides of results in place. ``before`` are the graph's ``results`` before the passes. A result
    whose strides had gaps or overlaps stays as it is."""
    returned = _returned(graph)
    if len(returned) != len(before):
        return
    for node, wanted in zip(returned, before, strict=True):
        value = _strided(node)
        if value is None or wanted is None or expressions(value.shape) != expressions(wanted.shape):
            continue
        output = graph.output_node()
        with graph.inserting_before(output):
            output.replace_input_with(node, laid_out_as(graph, node, wanted))


def _returned(graph: fx.Graph) -> list[fx.Node]:
    return [] if (output := graph.output_node()) is None else list(_leaves(output.args))


def _leaves(args: Any) -> Any:
    if isinstance(args, (list, tuple)):
        for one in args:
            yield from _leaves(one)
    elif isinstance(args, fx.Node):
        yield args


def _strided(node: fx.Node) -> Any:
    value = node.meta.get("val")
    return value if is_strided(value) else None


# New values of a written tensor have its strides, which a graph needs only while it is made, to tell whether
# contiguous() copies:
#
#     y = x.mul(2)     # x has strides (256, 1) and sizes (8, 3), y has strides (3, 1) from here on
#     x.copy_(y)


def close_gaps(graph: fx.Graph) -> None:
    """Gives new values of memory that has gaps, in ``meta["val"]``, strides without gaps, unless a result or
    ``as_strided`` shows these. Results of an operator that makes gaps itself, as ``slice_scatter`` does, and new values
    of such results keep them. Makes no guards."""
    closing: set[fx.Node] = set()
    for node in graph.nodes:
        if not _may_close(node, closing):
            continue
        value = closed(node.meta["val"])
        if value is not None and all(map(takes_any_strides, node.users)):
            node.meta["val"] = value
            closing.add(node)
            for user in node.users:
                if is_view_of(user, node):
                    evaluate_view(user)


def _may_close(node: fx.Node, closing: set[fx.Node]) -> bool:
    """Whether a node has new values of an input, of a view, or of values that were closed."""
    if not makes_tensors(node) or not node.args or not isinstance(node.args[0], fx.Node):
        return False
    written, value = node.args[0], node.meta.get("val")
    is_view_or_input = written.op == "placeholder" or (is_operator(written) and is_view(written.target))
    if not is_view_or_input and written not in closing:
        return False
    before = written.meta.get("val")
    if not is_strided(value) or not is_strided(before):
        return False
    return written in closing or expressions(value.stride()) == expressions(before.stride())


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
    """Positions of the arguments of a normalisation: the input, its parameters, for a backward operator its saved
    statistics, and running statistics whose new values are the last results."""

    input: int
    parameters: range
    statistics: range | None = None  # None: they are the results 1 and 2
    running: range = range(0)


_NORMS = {
    aten.native_layer_norm.default: _Norm(0, range(2, 4)),
    aten.native_group_norm.default: _Norm(0, range(1, 3)),
    aten.native_batch_norm.default: _Norm(0, range(1, 5)),
    aten._native_batch_norm_legit.default: _Norm(0, range(1, 5)),
    aten._native_batch_norm_legit_functional.default: _Norm(0, range(1, 5), running=range(3, 5)),
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
            changed |= _correct_norm(node, norm) | _correct_running(node, norm)
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


def _correct_running(node: fx.Node, norm: _Norm) -> set[fx.Node]:
    """Fake new values of running statistics are float32. Real ones have the dtype of the old ones."""
    dtypes = [arg.meta["val"].dtype for arg in _nodes(node, norm.running)]
    split = len(node.meta["val"]) - len(dtypes)
    others, values = node.meta["val"][:split], node.meta["val"][split:]
    if all(value.dtype == dtype for value, dtype in zip(values, dtypes, strict=True)):
        return set()
    node.meta["val"] = (*others, *(value.to(dtype) for value, dtype in zip(values, dtypes, strict=True)))
    return {node}


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
