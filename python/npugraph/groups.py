# SPDX-License-Identifier: Apache-2.0
"""Finds the process groups of Programs that another process has saved."""

from __future__ import annotations

from collections.abc import Sequence


def name_here(name: str, ranks: Sequence[int]) -> str:
    """Returns the name in this process of a group that was called ``name`` and had ``ranks``. This is the group of that
    name if it has these ranks, or else another group that has them, or else a new group. All ranks of a new group have
    to ask for it. Raises ``ValueError`` if this process can have no such group."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    wanted = f"the Program takes the process group '{name}' of ranks {list(ranks)}"
    if not dist.is_available() or not dist.is_initialized():
        raise ValueError(f"{wanted}: call torch.distributed.init_process_group first")
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank not in ranks or max(ranks) >= size:
        raise ValueError(f"{wanted}, got rank {rank} of {size}")
    groups = sorted(distributed_c10d._world.pg_map, key=lambda group: group.group_name != name)
    for group in groups:
        if dist.get_process_group_ranks(group) == list(ranks):
            return group.group_name
    return dist.new_group(list(ranks), use_local_synchronization=True).group_name
