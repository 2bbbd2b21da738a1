# SPDX-License-Identifier: Apache-2.0
"""Collectives whose pieces have a size for each rank. Sizes that do not fit raise ValueError."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

__all__ = ["all_gather_into_tensor_uneven", "all_to_all_vc", "reduce_scatter_tensor_uneven"]


def reduce_scatter_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,
    input_split_sizes: Sequence[int] | None = None,
    op: dist.ReduceOp = dist.ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> dist.Work | None:
    """Reduces ``input`` over all ranks. ``output`` becomes this rank's piece of the result.

    ``input_split_sizes`` are the rows (of dimension 0) of each rank's piece; without them all pieces are equal. Returns
    a handle if ``async_op``.
    """
    group = group or dist.group.WORLD
    options = c10d.ReduceScatterOptions()
    options.reduceOp = op
    options.asyncOp = async_op
    pieces = _pieces("reduce_scatter_tensor_uneven", "input", input, input_split_sizes, group)
    return _finish(group.reduce_scatter([output], [pieces], options), async_op)


def all_gather_into_tensor_uneven(
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: Sequence[int] | None = None,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> dist.Work | None:
    """Puts the ``input`` of all ranks, one after the other, into ``output``.

    ``output_split_sizes`` are the rows (of dimension 0) of each rank's input; without them all inputs are equal.
    Returns a handle if ``async_op``.
    """
    group = group or dist.group.WORLD
    options = c10d.AllgatherOptions()
    options.asyncOp = async_op
    pieces = _pieces("all_gather_into_tensor_uneven", "output", output, output_split_sizes, group)
    return _finish(group.allgather([pieces], [input], options), async_op)


def all_to_all_vc(
    output: torch.Tensor,
    input: torch.Tensor,
    send_count_matrix: Sequence[int],
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> dist.Work | None:
    """Sends pieces of ``input`` to all ranks, and puts the pieces that they sent into ``output``, in the order of the
    ranks.

    ``send_count_matrix[i * ranks + j]`` elements go from rank i to rank j; all ranks give the same matrix. Returns a
    handle if ``async_op``.
    """
    group = group or dist.group.WORLD
    ranks = group.size()
    if len(send_count_matrix) != ranks * ranks:
        raise ValueError(
            f"all_to_all_vc: send_count_matrix must have {ranks * ranks} counts, got {len(send_count_matrix)}"
        )
    sent = list(send_count_matrix[group.rank() * ranks : (group.rank() + 1) * ranks])
    received = list(send_count_matrix[group.rank() :: ranks])
    options = c10d.AllToAllOptions()
    options.asyncOp = async_op
    return _finish(group.alltoall_base(output.view(-1), input.view(-1), received, sent, options), async_op)


def _pieces(
    call: str, name: str, tensor: torch.Tensor, sizes: Sequence[int] | None, group: dist.ProcessGroup
) -> list[torch.Tensor]:
    ranks, rows = group.size(), tensor.size(0)
    if not sizes:
        if rows % ranks:
            raise ValueError(f"{call}: the {rows} rows of {name} cannot be split evenly over {ranks} ranks")
        sizes = [rows // ranks] * ranks
    if len(sizes) != ranks or sum(sizes) != rows:
        raise ValueError(
            f"{call}: {name}_split_sizes must be {ranks} numbers that add up to the {rows} rows of {name}, "
            f"got {list(sizes)}"
        )
    return list(tensor.split(list(sizes)))


def _finish(work: dist.Work, async_op: bool) -> dist.Work | None:
    if async_op:
        return work
    work.wait()
    return None
