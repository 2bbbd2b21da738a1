# SPDX-License-Identifier: Apache-2.0
"""Converters of collectives: ``_c10d_functional``, which ``c10d_functional`` consists of, and ``npu_define``.

An operator of Ascend IR names the operator ``npugraph::...`` that computes it, with the ranks of its group, by which
another process finds the group. Such an operator is done when its result is read, so waits for it do nothing. Those
for parts of different sizes have parts that exchange them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters import registry, user_operators
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import known, typed
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

_F = torch.ops._c10d_functional
# Reductions by their names in torch, as Ascend calls them. It has no average.
_REDUCTIONS = {"sum": "sum", "product": "prod", "min": "min", "max": "max"}


def _ranks_of(group: Any) -> list[int]:
    if not isinstance(group, str):
        raise NotImplementedError("its process group is no name")
    from npugraph import collectives  # it needs torch.distributed

    return collectives.ranks_of(group)


def _named(tag: str, ranks: Sequence[int]) -> str:
    """The name of the group that ``npu_define`` names by a tag and its ranks."""
    from torch.distributed import distributed_c10d

    group = distributed_c10d._find_pg_by_ranks_and_tag(tag, list(ranks))
    if group is None:
        raise NotImplementedError(f"there is no process group with tag {tag!r} of the ranks {list(ranks)}")
    return group.group_name


def _reduction(name: str) -> str:
    if name not in _REDUCTIONS:
        raise NotImplementedError(f"Ascend IR has no reduction {name!r} of collectives")
    return _REDUCTIONS[name]


def _computed_by(name: str, result: Tensor, group: str, **arguments: Any) -> Tensor:
    """``result``, which an operator of Ascend IR makes and ``npugraph::name`` computes, with these arguments."""
    target = getattr(torch.ops.npugraph, name).default
    given = {**arguments, "group": group, "ranks": _ranks_of(group)}
    user_operators.call_host(target, result.node, given, [result])
    return result


def _all_gather(x: Tensor, group: str) -> Tensor:
    made = ge.HcomAllGather(x, rank_size=len(_ranks_of(group)), group=group)
    return _computed_by("all_gather", made, group, inputs=[x])


@register_fx_node_ge_converter(_F.all_reduce.default)
def all_reduce(input: Tensor, reduce_op: str, group_name: Any, *, meta_outputs: Any) -> Tensor:
    _ranks_of(group_name)
    made = ge.HcomAllReduce(input, reduction=_reduction(reduce_op), group=group_name, fusion=0)
    return _computed_by("all_reduce", made, group_name, inputs=[input], reduce_op=reduce_op)


@register_fx_node_ge_converter(_F.all_gather_into_tensor.default)
def all_gather_into_tensor(input: Tensor, group_size: int, group_name: Any, *, meta_outputs: Any) -> Tensor:
    return _all_gather(input, group_name)


@register_fx_node_ge_converter(_F.reduce_scatter_tensor.default)
def reduce_scatter_tensor(
    input: Tensor, reduce_op: str, group_size: int, group_name: Any, *, meta_outputs: Any
) -> Tensor:
    size = len(_ranks_of(group_name))
    made = ge.HcomReduceScatter(input, reduction=_reduction(reduce_op), fusion=0, group=group_name, rank_size=size)
    return _computed_by("reduce_scatter", made, group_name, inputs=[input], reduce_op=reduce_op)


@register_fx_node_ge_converter(_F.broadcast.default)
def broadcast(input: Tensor, src: int, group_name: Any, *, meta_outputs: Any) -> Tensor:
    return _broadcast(input, src, group_name)


def _broadcast(x: Tensor, source: int, group: str) -> Tensor:
    """``source`` is a rank of the group."""
    _ranks_of(group)
    (made,) = ge.HcomBroadcast([x], root_rank=source, group=group, fusion=0, size_of_y=1)
    return _computed_by("broadcast", made, group, input=x, source=source)


@register_fx_node_ge_converter(_F.all_to_all_single.default)
def all_to_all_single(
    input: Tensor, output_split_sizes: Any, input_split_sizes: Any, group_name: Any, *, meta_outputs: Any
) -> Tensor:
    return _all_to_all(input, output_split_sizes, input_split_sizes, group_name)


def _all_to_all(x: Tensor, received: Any, sent: Any, group: str) -> Tensor:
    """Exchanges rows. Without numbers of rows, all ranks get as many. Ascend IR counts elements."""
    size = len(_ranks_of(group))
    if not received and not sent:
        rows = known("input", (x.symsize or ())[0])
        received = sent = [rows // size] * size
        made = ge.HcomAllToAll(x, group=group)
    else:
        received = [known("output_split_sizes", rows) for rows in received]
        sent = [known("input_split_sizes", rows) for rows in sent]
        width = math.prod(known("input", size) for size in (x.symsize or ())[1:])
        counts = [_counts(rows, width) for rows in (sent, received)]
        made = ge.HcomAllToAllV(x, *counts[0], *counts[1], group=group)
    splits = {"output_split_sizes": received, "input_split_sizes": sent}
    return _computed_by("all_to_all", made, group, input=x, **splits)


def _counts(rows: Sequence[int], width: int) -> tuple[Tensor, Tensor]:
    """The elements of each rank, and where they begin."""
    counts = [count * width for count in rows]
    begins = [sum(counts[:rank]) for rank in range(len(counts))]
    return ge.Const(counts, dtype=DataType.DT_INT64), ge.Const(begins, dtype=DataType.DT_INT64)


@register_fx_node_ge_converter(_F.wait_tensor.default)
def wait_tensor(self: Tensor, *, meta_outputs: Any) -> Tensor:
    if not self.node.type.startswith("Hcom"):
        raise NotImplementedError("it waits for a collective that is not in the graph")
    return ge.Identity(self)


def _of_npu_define(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes the decorated function the converter of an operator that npugraph/npu_define.py defines."""

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        registry.add(f"npu_define.{name}.default", body)
        return body

    return register


def _gathered(x: Tensor, tag: str, ranks: Sequence[int], spec: Any) -> Tensor:
    rows, *rest = [known("input", size) for size in x.symsize or ()]
    made = typed(_all_gather(x, _named(tag, ranks)), x.dtype, [rows * len(ranks), *rest])
    made.desc.shape.dim[:] = made.symsize
    return ge.Reshape(made, [known("output", size) for size in spec.size])


@_of_npu_define("allgather_in_tensor")
def allgather_in_tensor(
    output: Tensor, input: Tensor, tag: str, ranks: Sequence[int], group_size: int, *, meta_outputs: Any
) -> Tensor:
    return _gathered(input, tag, ranks, meta_outputs)


@_of_npu_define("_allgather_in_tensor_shape")
def allgather_in_tensor_shape(
    shape: Any, input: Tensor, tag: str, ranks: Sequence[int], group_size: int, *, meta_outputs: Any
) -> Tensor:
    return _gathered(input, tag, ranks, meta_outputs)


@_of_npu_define("broadcast")
def broadcast_from_world_rank(
    input: Tensor, src: int, tag: str, ranks: Sequence[int], group_size: int, *, meta_outputs: Any
) -> Tensor:
    return _broadcast(input, list(ranks).index(src), _named(tag, ranks))


@_of_npu_define("all_to_all_single_npu")
def all_to_all_single_npu(
    input: Tensor,
    output_split_sizes: Any,
    input_split_sizes: Any,
    tag: str,
    ranks: Sequence[int],
    group_size: int,
    *,
    meta_outputs: Any,
) -> Tensor:
    return _all_to_all(input, output_split_sizes, input_split_sizes, _named(tag, ranks))


@_of_npu_define("allgather_in_tensor_uneven")
def allgather_in_tensor_uneven(
    input: Tensor, output_split_sizes: Any, tag: str, ranks: Sequence[int], group_size: int, *, meta_outputs: Any
) -> Tensor:
    width = math.prod(known("input", size) for size in (input.symsize or ())[1:])
    counts, begins = _counts([known("output_split_sizes", rows) for rows in output_split_sizes], width)
    sent = ge.Const([math.prod(known("input", size) for size in input.symsize or ())], dtype=DataType.DT_INT64)
    return ge.HcomAllGatherV(input, sent, counts, begins, group=_named(tag, ranks))


@_of_npu_define("reduce_scatter_tensor_uneven")
def reduce_scatter_tensor_uneven(
    input: Tensor,
    reduce_op: str,
    input_split_sizes: Any,
    tag: str,
    ranks: Sequence[int],
    group_size: int,
    *,
    meta_outputs: Any,
) -> Tensor:
    rows, *rest = [known("input", size) for size in input.symsize or ()]
    parts = [known("input_split_sizes", part) for part in input_split_sizes or [rows // len(ranks)] * len(ranks)]
    counts, begins = _counts(parts, math.prod(rest))
    received = ge.Const([math.prod(known("output", size) for size in meta_outputs.size)], dtype=DataType.DT_INT64)
    group = _named(tag, ranks)
    return ge.HcomReduceScatterV(input, received, counts, begins, reduction=_reduction(reduce_op), group=group)
