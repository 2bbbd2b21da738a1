# SPDX-License-Identifier: Apache-2.0
"""The backends ``hccl`` and ``lccl`` of torch.distributed: collectives over npu tensors, by gloo."""

import copy
from typing import Any

import torch
import torch.distributed as dist

from npugraph._ascend import ProcessGroupHCCL

__all__ = ["is_hccl_available", "reinit_process_group"]

_BACKENDS = ("hccl", "lccl")


def is_hccl_available() -> bool:
    """Whether process groups of npu tensors can be made, which is so if torch was built with gloo."""
    return dist.is_gloo_available()


def reinit_process_group(group: dist.ProcessGroup | None = None, rebuild_link: bool = True) -> None:
    """Makes a group of hccl work again after a call on it failed. All ranks of the group must call it.

    With ``rebuild_link`` the ranks connect anew. Without it nothing is done, since no call on a group outlives its
    failure. Raises ValueError for a group of another backend, DistBackendError if the ranks cannot connect.
    """
    group = group or dist.group.WORLD
    backend = group._get_backend(torch.device("npu"))
    if not isinstance(backend, ProcessGroupHCCL):
        raise ValueError(f"reinit_process_group: takes a group of the backend hccl, got one of {backend.name()}")
    if rebuild_link:
        store = dist.PrefixStore(f"reconnection {backend._reconnections}/", backend._store)
        name, timeout = backend.options.group_id, backend.options._timeout
        backend._reconnect(_connect(store, backend.rank(), backend.size(), name, timeout))


def _connect(store: dist.Store, rank: int, size: int, name: str, timeout: Any) -> Any:
    """Connects the ranks with gloo, and returns when all of them are connected: a rank that destroyed the group at once
    would close connections that others are still making."""
    try:
        gloo = dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
        if store.add("connected", 1) == size:
            store.set("all connected", "")
        store.wait(["all connected"], timeout)
        return gloo
    except RuntimeError as error:
        raise dist.DistBackendError(
            f"hccl: rank {rank} of {size} could not connect to the other ranks of group {name!r} within {timeout}: "
            f"{error}"
        ) from error


def _create(group: Any, options: Any) -> ProcessGroupHCCL:
    """Makes a group. torch.distributed calls it with ``_DistributedBackendOptions`` and the caller's ``pg_options``."""
    if options is not None and not isinstance(options, ProcessGroupHCCL.Options):
        raise TypeError(f"hccl: pg_options must be ProcessGroupHCCL.Options, got {type(options).__name__}")
    options = ProcessGroupHCCL.Options() if options is None else copy.copy(options)
    options._timeout = group.timeout
    options.group_id = options.group_name = group.group_id
    options.global_ranks_in_group = group.global_ranks_in_group
    gloo = _connect(group.store, group.group_rank, group.group_size, group.group_id, group.timeout)
    return ProcessGroupHCCL(group.store, gloo, options)


def _register() -> None:
    """Registers the backends with torch.distributed. ``hccl`` is the backend of npu if a script names none."""
    for name in _BACKENDS:
        dist.Backend.register_backend(name, _create, extended_api=True, devices=["npu"])
    dist.is_hccl_available = is_hccl_available
    dist.distributed_c10d.is_hccl_available = is_hccl_available
    dist.ProcessGroupHCCL = ProcessGroupHCCL
