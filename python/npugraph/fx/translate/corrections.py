# SPDX-License-Identifier: Apache-2.0
"""Corrects the fake tensors of operators that really return something else on the CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import torch
from torch import _prims_common, fx
from torch.utils import _pytree as pytree

from npugraph import _C
from npugraph.fx.schema import is_of_ascend

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


def correct_values(nodes: Iterable[fx.Node]) -> None:
    """Corrects wrong values in ``node.meta["val"]``, and the values that were computed from them."""
    changed: set[fx.Node] = set()
    for node in nodes:
        norm = _NORMS.get(node.target)
        if norm is not None:
            changed |= _correct_norm(node, norm)
        elif node.target is aten.roll.default:
            changed |= _correct_roll(node)
        elif _has_quantized_results(node):
            node.meta["val"] = pytree.tree_map_only(
                torch.Tensor, lambda _: _C.Opaque("quantized"), node.meta.get("val")
            )
        else:
            if not changed.isdisjoint(node.all_input_nodes) and _compute_again(node):
                changed.add(node)
            if node.target is aten.index.Tensor:
                changed |= _correct_index(node)


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


def _correct_roll(node: fx.Node) -> set[fx.Node]:
    """On the CPU, ``roll`` is made of concatenations, so its result has their strides."""
    value, shifts, dims = fx.map_arg((*node.args, [])[:3], lambda n: n.meta["val"])
    if not dims or value.dim() < 4 or value.is_contiguous() or value.numel() == 0:
        return set()
    for shift, dim in zip(shifts, dims, strict=True):
        size = value.size(dim)
        start = (size - shift) % size
        value = torch.cat([value.narrow(dim, start, size - start), value.narrow(dim, 0, start)], dim)
    if value.stride() == node.meta["val"].stride():
        return set()
    node.meta["val"] = value
    return {node}


def _correct_index(node: fx.Node) -> set[fx.Node]:
    """The strides of ``index`` depend on those of its indices, too: TensorIterator orders the dimensions by all
    operands."""
    value, indices = fx.map_arg(node.args, lambda n: n.meta["val"])
    positions = [i for i, index in enumerate(indices) if index is not None]
    masks = (torch.bool, torch.uint8)  # a mask stands for as many indices as it has dimensions
    if not positions or any(indices[i].dtype in masks for i in positions):
        return set()
    given = torch.broadcast_tensors(*(indices[i] for i in positions))
    before = positions[0]
    if positions[-1] - before + 1 != len(positions):
        value, before = value.movedim(positions, list(range(len(positions)))), 0
    behind = before + len(positions)
    after = value.dim() - behind
    result = node.meta["val"]
    strides = [*value.stride()[:before], *[0] * given[0].dim(), *value.stride()[behind:]]
    operands = [value.as_strided(result.shape, strides)]
    operands += [index[(None,) * before + (...,) + (None,) * after].expand(result.shape) for index in given]
    order, _ = _prims_common.compute_elementwise_output_logical_to_physical_perm(*operands)
    dense = _prims_common.make_contiguous_strides_for(_prims_common.apply_perm(result.shape, order))
    strides = _prims_common.apply_perm(dense, _prims_common.invert_perm(order))
    if tuple(strides) == result.stride():
        return set()
    node.meta["val"] = result.new_empty_strided(result.shape, strides)
    return {node}


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
