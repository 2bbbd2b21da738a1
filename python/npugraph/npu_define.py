# SPDX-License-Identifier: Apache-2.0
"""Operators ``npu_define::*``: the collectives in graphs of Ascend, as operators that are done when they return.

``tag`` and ``ranks`` name a process group, as in ``c10d_functional``. The functions here compute each operator by means
of other operators, which take its place in compiled graphs (npugraph/fx/decompose/expand.py). Only ``allgather`` is
decomposed earlier. The names are Ascend's, the schemas are npugraph's own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import torch
from torch.distributed import distributed_c10d

import npugraph.collectives  # noqa: F401 (defines operators)
from npugraph.fx.dynamo.traceable import REDUCTIONS
from npugraph.python_operators import define

_F = torch.ops._c10d_functional
_own = torch.ops.npugraph
_define = functools.partial(define, "npu_define")
_GROUP = "str tag, int[] ranks, int group_size"


def _group_of(tag: str, ranks: Sequence[int]) -> str:
    group = distributed_c10d._find_pg_by_ranks_and_tag(tag, list(ranks))
    if group is None:
        raise ValueError(f"npu_define: there is no process group with tag {tag!r} of the ranks {list(ranks)}")
    return group.group_name


def _exchange(parts: Sequence[torch.Tensor], counts: Sequence[int], group: str) -> list[torch.Tensor]:
    """Sends part i to rank i. Returns the flat tensors that came from the ranks, ``counts[i]`` elements from rank i."""
    flat = torch.cat([part.reshape(-1) for part in parts])
    sent = [math.prod(part.shape) for part in parts]
    return list(_F.wait_tensor(_F.all_to_all_single(flat, list(counts), sent, group)).split(list(counts)))


def _gather(input: torch.Tensor, tag: str, ranks: Sequence[int]) -> torch.Tensor:
    return _F.wait_tensor(_F.all_gather_into_tensor(input, len(ranks), _group_of(tag, ranks)))


def _rows(input: torch.Tensor, sizes: Sequence[int] | None, ranks: Sequence[int]) -> list[int]:
    return list(sizes) if sizes else [input.shape[0] // len(ranks)] * len(ranks)


@_define(f"allgather(Tensor input, {_GROUP}) -> Tensor[]", key="CompositeImplicitAutograd")
def allgather(input: torch.Tensor, tag: str, ranks: Sequence[int], group_size: int) -> list[torch.Tensor]:
    """Returns the tensor of each rank."""
    shape = [group_size, *input.shape]
    return list(torch.ops.npu_define._allgather_in_tensor_shape(shape, input, tag, ranks, group_size).unbind(0))


@_define(f"allgather_in_tensor(Tensor output, Tensor input, {_GROUP}) -> Tensor")
def allgather_in_tensor(
    output: torch.Tensor, input: torch.Tensor, tag: str, ranks: Sequence[int], group_size: int
) -> torch.Tensor:
    """Returns the tensors of all ranks, one after the other, in the shape of ``output``. ``output`` is not written."""
    return _gather(input, tag, ranks).view(output.shape)


@_define(f"_allgather_in_tensor_shape(SymInt[] shape, Tensor input, {_GROUP}) -> Tensor")
def _allgather_in_tensor_shape(
    shape: Sequence[int], input: torch.Tensor, tag: str, ranks: Sequence[int], group_size: int
) -> torch.Tensor:
    return _gather(input, tag, ranks).view(shape)


@_define(f"allgather_in_tensor_uneven(Tensor input, SymInt[] output_split_sizes, {_GROUP}) -> Tensor")
def allgather_in_tensor_uneven(
    input: torch.Tensor, output_split_sizes: Sequence[int], tag: str, ranks: Sequence[int], group_size: int
) -> torch.Tensor:
    """Gathers along dimension 0. Rank i has ``output_split_sizes[i]`` rows."""
    width = math.prod(input.shape[1:])
    counts = [rows * width for rows in output_split_sizes]
    received = _exchange([input] * len(ranks), counts, _group_of(tag, ranks))
    return torch.cat(received).view([sum(output_split_sizes), *input.shape[1:]])


@_define(f"broadcast(Tensor input, int src, {_GROUP}) -> Tensor")
def broadcast(input: torch.Tensor, src: int, tag: str, ranks: Sequence[int], group_size: int) -> torch.Tensor:
    """``src`` is a rank of the world."""
    return _F.wait_tensor(_F.broadcast(input, list(ranks).index(src), _group_of(tag, ranks)))


@_define(
    "all_to_all_single_npu(Tensor input, SymInt[]? output_split_sizes, SymInt[]? input_split_sizes, "
    f"{_GROUP}) -> Tensor",
)
def all_to_all_single_npu(
    input: torch.Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    tag: str,
    ranks: Sequence[int],
    group_size: int,
) -> torch.Tensor:
    """Exchanges parts along dimension 0. The parts are equal if no sizes are given."""
    received, sent = _rows(input, output_split_sizes, ranks), _rows(input, input_split_sizes, ranks)
    return _F.wait_tensor(_F.all_to_all_single(input, received, sent, _group_of(tag, ranks)))


@_define(
    f"reduce_scatter_tensor_uneven(Tensor input, str reduce_op, SymInt[]? input_split_sizes, {_GROUP}) -> Tensor",
)
def reduce_scatter_tensor_uneven(
    input: torch.Tensor,
    reduce_op: str,
    input_split_sizes: Sequence[int] | None,
    tag: str,
    ranks: Sequence[int],
    group_size: int,
) -> torch.Tensor:
    """Scatters along dimension 0. Rank i gets ``input_split_sizes[i]`` rows; the parts are equal if no sizes are given.
    Reductions are sum, avg, product, min and max. Raises ``ValueError`` for any other."""
    if reduce_op not in REDUCTIONS:
        raise ValueError(
            f"npu_define.reduce_scatter_tensor_uneven: there is no reduction {reduce_op!r}; allowed are "
            f"{', '.join(REDUCTIONS)}"
        )
    rows = _rows(input, input_split_sizes, ranks)
    own = [rows[list(ranks).index(torch.distributed.get_rank())], *input.shape[1:]]
    received = _exchange(input.split(rows), [math.prod(own)] * len(ranks), _group_of(tag, ranks))
    return REDUCTIONS[reduce_op](torch.stack([part.view(own) for part in received]))


@_define(f"_send(Tensor input, int dst, int p2p_tag, {_GROUP}) -> ()")
def _send(input: torch.Tensor, dst: int, p2p_tag: int, tag: str, ranks: Sequence[int], group_size: int) -> None:
    """``dst`` is a rank of the world."""
    _own.send(input, dst, p2p_tag, _group_of(tag, ranks), ranks)


@_define(f"_recv(Tensor like, int src, int p2p_tag, {_GROUP}) -> Tensor")
def _recv(like: torch.Tensor, src: int, p2p_tag: int, tag: str, ranks: Sequence[int], group_size: int) -> torch.Tensor:
    """Returns a tensor of the sizes and type of ``like``. ``src`` is a rank of the world."""
    return _own.receive(like, src, p2p_tag, _group_of(tag, ranks), ranks)


# Fake operators send nothing while a graph is traced. Transfers have side effects, so that they stay in the graph even
# if nobody reads a result.
torch.library.register_fake("npugraph::send", lambda *_: None)
torch.library.register_fake(
    "npugraph::receive", lambda like, *_: torch.empty_like(like, memory_format=torch.contiguous_format)
)
for _operator in (torch.ops.npu_define._send, torch.ops.npu_define._recv, _own.send, _own.receive):
    torch.fx.node.has_side_effect(_operator.default)
