# SPDX-License-Identifier: Apache-2.0
"""Operators ``npugraph::all_reduce`` and others: collectives that are done when they return.

Compiled graphs have them in place of torch's functional collectives, which return earlier. The functions here define
their meaning. Compiled graphs run them in C++ (src/backend/bridge/collective_task.cc), where the wait moves to the
first use of a result. ``group`` is the name of a process group. ``ranks`` are its members, by which another process
finds the group.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives  # defines wait_tensor and others for fake tensors
from torch.distributed import distributed_c10d

from npugraph.python_operators import define

_F = torch.ops._c10d_functional


_define = functools.partial(define, "npugraph")


@_define("all_reduce(Tensor[] inputs, str reduce_op, str group, int[] ranks) -> Tensor[]")
def all_reduce(inputs: Sequence[torch.Tensor], reduce_op: str, group: str, ranks: Sequence[int]) -> list[torch.Tensor]:
    return [_F.wait_tensor(_F.all_reduce(x, reduce_op, group)) for x in inputs]


@_define("all_gather(Tensor[] inputs, str group, int[] ranks) -> Tensor[]")
def all_gather(inputs: Sequence[torch.Tensor], group: str, ranks: Sequence[int]) -> list[torch.Tensor]:
    """Gathers along dimension 0."""
    return [_F.wait_tensor(_F.all_gather_into_tensor(x, len(ranks), group)) for x in inputs]


@_define("reduce_scatter(Tensor[] inputs, str reduce_op, str group, int[] ranks) -> Tensor[]")
def reduce_scatter(
    inputs: Sequence[torch.Tensor], reduce_op: str, group: str, ranks: Sequence[int]
) -> list[torch.Tensor]:
    """Scatters along dimension 0."""
    return [_F.wait_tensor(_F.reduce_scatter_tensor(x, reduce_op, len(ranks), group)) for x in inputs]


@_define(
    "all_to_all(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group, int[] ranks) "
    "-> Tensor"
)
def all_to_all(
    input: torch.Tensor,
    output_split_sizes: Sequence[int],
    input_split_sizes: Sequence[int],
    group: str,
    ranks: Sequence[int],
) -> torch.Tensor:
    return _F.wait_tensor(_F.all_to_all_single(input, output_split_sizes, input_split_sizes, group))


@_define("broadcast(Tensor input, int source, str group, int[] ranks) -> Tensor")
def broadcast(input: torch.Tensor, source: int, group: str, ranks: Sequence[int]) -> torch.Tensor:
    """``source`` is a rank of the group."""
    return _F.wait_tensor(_F.broadcast(input, source, group))


@_define("send(Tensor input, int destination, int tag, str group, int[] ranks) -> ()")
def send(input: torch.Tensor, destination: int, tag: int, group: str, ranks: Sequence[int]) -> None:
    """``destination`` is a rank of the world."""
    dist.send(input, destination, distributed_c10d._resolve_process_group(group), tag)


@_define("receive(Tensor like, int source, int tag, str group, int[] ranks) -> Tensor")
def receive(like: torch.Tensor, source: int, tag: int, group: str, ranks: Sequence[int]) -> torch.Tensor:
    """Returns a tensor of the sizes and type of ``like``. ``source`` is a rank of the world."""
    result = torch.empty_like(like, memory_format=torch.contiguous_format)
    dist.recv(result, source, distributed_c10d._resolve_process_group(group), tag)
    return result


@_define("transfer(Tensor(a!)[] received, Tensor[] sent, int[] peers, int[] tags, str group, int[] ranks) -> ()")
def transfer(
    received: Sequence[torch.Tensor],
    sent: Sequence[torch.Tensor],
    peers: Sequence[int],
    tags: Sequence[int],
    group: str,
    ranks: Sequence[int],
) -> None:
    """Receives and sends all tensors at once. Peers are ranks of the world. The first peers and tags are those of the
    received tensors, the others those of the sent tensors."""
    process_group = distributed_c10d._resolve_process_group(group)
    begin = [dist.irecv] * len(received) + [dist.isend] * len(sent)
    works = [
        begin(tensor, peer, process_group, tag)
        for begin, tensor, peer, tag in zip(begin, [*received, *sent], peers, tags, strict=True)
    ]
    for work in works:
        work.wait()


@_define("all_reduce_(Tensor(a!)[] tensors, str reduce_op, str group, int[] ranks) -> ()")
def all_reduce_(tensors: Sequence[torch.Tensor], reduce_op: str, group: str, ranks: Sequence[int]) -> None:
    for tensor in tensors:
        _F.wait_tensor(_F.all_reduce_(tensor, reduce_op, group))


@_define("broadcast_(Tensor(a!) tensor, int source, str group, int[] ranks) -> ()")
def broadcast_(tensor: torch.Tensor, source: int, group: str, ranks: Sequence[int]) -> None:
    """``source`` is a rank of the group."""
    _F.wait_tensor(_F.broadcast_(tensor, source, group))


@_define("all_gather_into(Tensor input, Tensor(a!) out, str group, int[] ranks) -> ()")
def all_gather_into(input: torch.Tensor, out: torch.Tensor, group: str, ranks: Sequence[int]) -> None:
    """Gathers along dimension 0."""
    _F.wait_tensor(_F.all_gather_into_tensor_out(input, len(ranks), group, out=out))


@_define("reduce_scatter_into(Tensor input, str reduce_op, Tensor(a!) out, str group, int[] ranks) -> ()")
def reduce_scatter_into(
    input: torch.Tensor, reduce_op: str, out: torch.Tensor, group: str, ranks: Sequence[int]
) -> None:
    """Scatters along dimension 0."""
    _F.wait_tensor(_F.reduce_scatter_tensor_out(input, reduce_op, len(ranks), group, out=out))


def ranks_of(group: str) -> list[int]:
    """Returns the members of the process group of this name, as ranks of the world."""
    return dist.get_process_group_ranks(distributed_c10d._resolve_process_group(group))
