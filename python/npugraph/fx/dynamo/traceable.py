# SPDX-License-Identifier: Apache-2.0
"""Makes functions of torch.distributed traceable that have no functional collective in Dynamo.

Their replacements call the functional collectives that exist. They join Dynamo's table, which names functions of
``torch.distributed._functional_collectives``. With them, broadcast, all_to_all, send, recv and the functions of
torch_npu for uneven parts become nodes of graphs and do not break them. The arguments are those of torch.distributed.
Dynamo itself refuses ``async_op=True``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional


def _broadcast(tensor, src=None, group=None, async_op=False, group_src=None):  # type: ignore[no-untyped-def]
    source = group_src if group_src is not None else src if group is None else dist.get_group_rank(group, src)
    tensor.copy_(functional.broadcast(tensor, source, group or dist.group.WORLD))


def _all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):  # type: ignore[no-untyped-def]
    received = exchange(input_tensor_list, [math.prod(x.shape) for x in output_tensor_list], group)
    for output, part in zip(output_tensor_list, received, strict=True):
        output.copy_(part.view(output.shape))


def _send(tensor, dst=None, group=None, tag=0, group_dst=None):  # type: ignore[no-untyped-def]
    peer = dst if group_dst is None else dist.get_global_rank(group or dist.group.WORLD, group_dst)
    functional.wait_tensor(functional.isend_inplace(tensor, peer, tag, group))


def _recv(tensor, src=None, group=None, tag=0, group_src=None):  # type: ignore[no-untyped-def]
    peer = src if group_src is None else dist.get_global_rank(group or dist.group.WORLD, group_src)
    tensor.copy_(functional.irecv_inplace(tensor, peer, tag, group))
    return peer


def _all_gather_into_tensor_uneven(output, input, output_split_sizes=None, group=None, async_op=False):  # type: ignore[no-untyped-def]
    rows = _rows(output, output_split_sizes, group)
    width = math.prod(output.shape[1:])
    received = exchange([input] * len(rows), [n * width for n in rows], group)
    output.copy_(torch.cat(received).view(output.shape))


def _reduce_scatter_tensor_uneven(  # type: ignore[no-untyped-def]
    output, input, input_split_sizes=None, op=dist.ReduceOp.SUM, group=None, async_op=False
):
    rows = _rows(input, input_split_sizes, group)
    received = exchange(input.split(rows), [math.prod(output.shape)] * len(rows), group)
    parts = torch.stack([part.view(output.shape) for part in received])
    output.copy_(REDUCTIONS[functional.REDUCE_OP_TO_STR[op]](parts))


REDUCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sum": lambda parts: parts.sum(0, dtype=parts.dtype),
    "avg": lambda parts: parts.mean(0),
    "product": lambda parts: parts.prod(0, dtype=parts.dtype),
    "min": lambda parts: parts.amin(0),
    "max": lambda parts: parts.amax(0),
}


def _rows(tensor: torch.Tensor, sizes: Sequence[int] | None, group: Any) -> list[int]:
    ranks = dist.get_world_size(group)
    return list(sizes) if sizes else [tensor.shape[0] // ranks] * ranks


def exchange(parts: Sequence[torch.Tensor], counts: Sequence[int], group: Any) -> Sequence[torch.Tensor]:
    """Sends part i to rank i. Returns a flat tensor from each rank, with as many elements as ``counts`` says."""
    flat = torch.cat([part.reshape(-1) for part in parts])
    sent = [math.prod(part.shape) for part in parts]
    received = functional.all_to_all_single(flat, list(counts), sent, group or dist.group.WORLD)
    return received.split(list(counts))


def make_traceable(function: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Makes Dynamo trace ``replacement`` where a program calls ``function``. Both take the same arguments."""
    replacement.__name__ = f"_npugraph_{function.__name__}"
    setattr(functional, replacement.__name__, replacement)
    functional.traceable_collective_remaps[function] = replacement


def install() -> None:
    make_traceable(dist.broadcast, _broadcast)
    make_traceable(dist.all_to_all, _all_to_all)
    make_traceable(dist.send, _send)
    make_traceable(dist.recv, _recv)
    if of_npu := sys.modules.get("torch_npu.distributed"):
        make_traceable(of_npu.all_gather_into_tensor_uneven, _all_gather_into_tensor_uneven)
        make_traceable(of_npu.reduce_scatter_tensor_uneven, _reduce_scatter_tensor_uneven)
