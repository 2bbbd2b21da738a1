# SPDX-License-Identifier: Apache-2.0
"""flex_attention -> attention with a mask, if its score_mod and mask_mod can be written as one. Otherwise it becomes
what torch defines it to be: products, the traced score_mod, softmax.

    score_mod: where(q_idx >= kv_idx, score + bias[h], -inf)      added = where(q_idx >= kv_idx, bias[h], -inf)
    flex_attention(q, k, v, score_mod, block_mask, scale)    ->   npugraph.attention(q, k, v, added, scale=scale)

The graph passes then recognise masks of positions by the nodes that make them, as for every attention. The blocks of a
block mask are ignored, because they say nothing that its mask_mod does not say.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._higher_order_ops.flex_attention import (
    flex_attention,
    flex_attention_backward,
    math_attention,
    sdpa_dense_backward,
)

from npugraph.fx.decompose.parts import put_parts

aten = torch.ops.aten


def expand_flex_attention(gm: fx.GraphModule) -> fx.GraphModule:
    """Replaces flex_attention and its backward, in place."""
    for node in gm.graph.find_nodes(op="call_function", target=flex_attention):
        wanted = {user.args[1] for user in node.users if user.users}
        put_parts(gm, node, functools.partial(_attention, node.meta["val"], wanted))
    for node in gm.graph.find_nodes(op="call_function", target=flex_attention_backward):
        put_parts(gm, node, functools.partial(_backward, node.meta["val"]))
    return gm


def _attention(
    like: Sequence[torch.Tensor],
    wanted: set[int],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: fx.GraphModule,
    block_mask: tuple[Any, ...],
    scale: float,
    options: dict[str, Any],
    score_buffers: Sequence[Any],
    mask_buffers: Sequence[Any],
) -> tuple[Any, ...]:
    """Computes the results, at least those in ``wanted``, with the strides and types of ``like``."""
    of_one_type = query.dtype == key.dtype == value.dtype != torch.float64
    read = _read(score_mod) if wanted <= {0} and of_one_type else None
    if read is None:
        made = math_attention(
            query, key, value, score_mod, block_mask, scale, options, tuple(score_buffers), tuple(mask_buffers)
        )
        return tuple(_lying_as(one, other) for one, other in zip(made, like, strict=True))
    groups = query.size(1) // key.size(1)
    key, value = (_of_all(x, query.size(0), groups) for x in (key, value))
    sizes = (query.size(0), query.size(1), query.size(2), key.size(2))
    mask = _added(read, block_mask[-1], sizes, query, score_buffers, mask_buffers)
    result = torch.ops.npugraph.attention(query, key, value, mask, scale=scale)
    return _lying_as(result, like[0]), None, None


def _of_all(tensor: torch.Tensor, batches: Any, groups: int) -> torch.Tensor:
    """Repeats keys or values for all batches and heads of the query."""
    if tensor.size(0) != batches:
        tensor = tensor.expand(batches, *tensor.shape[1:])
    return tensor if groups == 1 else tensor.repeat_interleave(groups, dim=1)


def _backward(
    like: Sequence[Any],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    grad_out: torch.Tensor | None,
    grad_logsumexp: torch.Tensor | None,
    forward: fx.GraphModule,
    joint: fx.GraphModule,
    block_mask: tuple[Any, ...],
    scale: float,
    options: dict[str, Any],
    score_buffers: Sequence[Any],
    mask_buffers: Sequence[Any],
) -> tuple[Any, ...]:
    # sdpa_dense_backward asks each buffer whether it requires a gradient.
    buffers = tuple(
        buffer.detach().requires_grad_(wanted is not None) if isinstance(buffer, torch.Tensor) else buffer
        for buffer, wanted in zip(score_buffers, like[3], strict=True)
    )
    *gradients, of_buffers = sdpa_dense_backward(
        query,
        key,
        value,
        out,
        logsumexp,
        grad_out,
        grad_logsumexp,
        forward,
        joint,
        block_mask,
        scale,
        options,
        buffers,
        tuple(mask_buffers),
    )
    made = [_lying_as(one, other) for one, other in zip(gradients, like, strict=False)]
    return *made, tuple(_lying_as(one, other) for one, other in zip(of_buffers, like[3], strict=True))


def _lying_as(tensor: Any, like: Any) -> Any:
    """``tensor`` with the strides and the type of ``like``. Later nodes rely on them."""
    if not isinstance(tensor, torch.Tensor) or not isinstance(like, torch.Tensor):
        return tensor
    if all(map(_is_same, tensor.stride(), like.stride())) and tensor.dtype == like.dtype:
        return tensor
    place = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
    return aten.copy(place, tensor)


def _is_same(one: Any, other: Any) -> bool:
    return getattr(getattr(one, "node", None), "expr", one) == getattr(getattr(other, "node", None), "expr", other)


@dataclasses.dataclass(frozen=True)
class _Scores:
    """A score_mod that adds ``biases`` to a score, and -infinity where one of ``seen`` is false. Both are nodes of its
    graph."""

    graph: fx.GraphModule
    seen: Sequence[fx.Node]
    biases: Sequence[fx.Node]


def _read(score_mod: fx.GraphModule) -> _Scores | None:
    """Reads a score_mod. None if it does more than that."""
    score = next(iter(score_mod.graph.nodes))
    of_score = _reached_from(score)
    seen, biases = [], []
    (at,) = score_mod.graph.output_node().all_input_nodes or (None,)
    while at is not score:
        target = getattr(at, "target", None)
        if target is aten.where.self and at.args[1] in of_score and _number(at.args[2]) == -math.inf:
            step, into, found = at.args[1], seen, at.args[0]
        elif target is aten.add.Tensor and not at.kwargs and at.args[0] in of_score:
            step, into, found = at.args[0], biases, at.args[1]
        elif target is aten.add.Tensor and not at.kwargs and at.args[1] in of_score:
            step, into, found = at.args[1], biases, at.args[0]
        else:
            return None
        if not isinstance(found, fx.Node) or found in of_score:
            return None
        into.append(found)
        at = step
    return _Scores(score_mod, seen, biases)


def _reached_from(node: fx.Node) -> set[fx.Node]:
    found = {node}
    for other in node.graph.nodes:
        if not found.isdisjoint(other.all_input_nodes):
            found.add(other)
    return found


_FILLED = {
    aten.scalar_tensor.default: 0,
    aten.full.default: 1,
    aten.full_like.default: 1,
    aten.new_full.default: 2,
}


def _number(node: Any) -> float | None:
    """The number that a node of a graph fills a tensor with. None if the node does something else."""
    if not isinstance(node, fx.Node):
        return node if isinstance(node, (int, float)) else None
    if node.target in (aten.ones.default, aten.new_ones.default, aten.ones_like.default):
        return 1
    position = _FILLED.get(node.target)
    return None if position is None else node.args[position]


def _added(
    read: _Scores,
    mask_mod: fx.GraphModule,
    sizes: Sequence[Any],
    query: torch.Tensor,
    score_buffers: Sequence[Any],
    mask_buffers: Sequence[Any],
) -> torch.Tensor | None:
    """The mask of the attention, of as few dimensions as it depends on: booleans, or numbers that are added to the
    scores. None if nothing is masked or added."""
    seen = [_over_positions(read.graph, [node], 1, sizes, query, score_buffers) for node in read.seen]
    (shown,) = mask_mod.graph.output_node().all_input_nodes
    if not _number(shown):
        seen.append(_over_positions(mask_mod, [shown], 0, sizes, query, mask_buffers))
    biases = [_over_positions(read.graph, [node], 1, sizes, query, score_buffers) for node in read.biases]
    mask = functools.reduce(operator.and_, seen) if seen else None
    if not biases:
        return None if mask is None else _with_rows(mask, sizes)
    bias = functools.reduce(operator.add, (bias.float() for bias in biases))  # scores are float32 for all types
    return _with_rows(bias if mask is None else torch.where(mask, bias, -math.inf), sizes)


def _with_rows(mask: torch.Tensor, sizes: Sequence[Any]) -> torch.Tensor:
    """Expands a mask to [batches or 1, heads or 1, queries, keys], or to the last two dimensions alone."""
    mask = mask.expand(*mask.shape[:2], *sizes[2:])
    return mask[0, 0] if mask.size(0) == 1 and mask.size(1) == 1 else mask


def _over_positions(
    gm: fx.GraphModule,
    wanted: Sequence[fx.Node],
    first: int,
    sizes: Sequence[Any],
    like: torch.Tensor,
    buffers: Sequence[Any],
) -> torch.Tensor:
    """Evaluates a node of a score_mod or mask_mod for all batches, heads, queries and keys. Dimensions on which it does
    not depend have size 1. The graph's inputs from ``first`` on are the four indices and the buffers."""
    graph = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    graph.graph_copy(gm.graph, copied)
    graph.output(copied[wanted[0]])
    graph.eliminate_dead_code()
    inputs = graph.find_nodes(op="placeholder")
    function: Callable[..., Any] = fx.GraphModule(gm, graph)
    used = [dim for dim in range(4) if inputs[first + dim].users]
    for dim in reversed(used):
        over = [None] * len(inputs)
        over[first + dim] = 0
        function = torch.vmap(function, in_dims=tuple(over))
    indices = [
        torch.arange(sizes[dim], device=like.device, dtype=torch.int64)
        if dim in used
        else torch.zeros((), device=like.device, dtype=torch.int64)
        for dim in range(4)
    ]
    scores = [like.new_zeros(())] * first
    with TransformGetItemToIndex():
        found = function(*scores, *indices, *buffers)
    for dim in range(4):
        if dim not in used:
            found = found.unsqueeze(dim)
    return found
