# SPDX-License-Identifier: Apache-2.0
"""Memory of the devices, in bytes. Nothing is cached: what is reserved is what is allocated."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from npugraph._C import device as _device

from torch_npu.npu._index import DeviceLike, device_index


def empty_cache() -> None:
    """Gives back what is cached, which is nothing."""


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free and total bytes of a device; NPUGRAPH_DEVICE_MEMORY sets the total."""
    return torch.accelerator.get_memory_info(device_index(device))


def memory_stats(device: DeviceLike = None) -> OrderedDict[str, Any]:
    """Counters of the allocator by name, as ``torch.cuda.memory_stats`` names them, for example
    ``allocated_bytes.all.peak``.
    """
    return torch.accelerator.memory_stats(device_index(device))


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """``memory_stats`` with one dictionary for each part of a name."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *path, last = name.split(".")
        level = nested
        for part in path:
            level = level.setdefault(part, {})
        level[last] = value
    return nested


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes that tensors hold now."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The most bytes that tensors held since the start, or since ``reset_peak_memory_stats``."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes that the allocator holds now."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The most bytes that the allocator held since the start, or since ``reset_peak_memory_stats``."""
    return memory_stats(device)["reserved_bytes.all.peak"]


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Peaks start again from what is in use now."""
    torch.accelerator.reset_peak_memory_stats(device_index(device))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Sums over time start again from 0."""
    torch.accelerator.reset_accumulated_memory_stats(device_index(device))


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Allows only this share of the device, from 0 to 1; what is over it raises torch.OutOfMemoryError.

    Raises ValueError for another number.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction is {fraction}, and must be from 0 to 1")
    _device.set_memory_fraction(device_index(device), fraction)


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """The share of the device that may be used."""
    return _device.memory_fraction(device_index(device))


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """Every piece of memory in use, as a segment with one block, sorted by device and address.

    Args:
        mempool_id: only segments of this pool; (0, 0) is where memory outside of graphs comes from.
    """
    segments = []
    for index in range(_device.count()):
        for address, size in sorted(_device.memory_pieces(index)):
            block = {
                "address": address,
                "size": size,
                "requested_size": size,
                "state": "active_allocated",
                "frames": [],
            }
            segments.append(
                {
                    "device": index,
                    "address": address,
                    "total_size": size,
                    "allocated_size": size,
                    "active_size": size,
                    "requested_size": size,
                    "stream": 0,
                    "segment_type": "large" if size >= 1 << 20 else "small",
                    "segment_pool_id": (0, 0),
                    "is_expandable": False,
                    "frames": [],
                    "blocks": [block],
                }
            )
    return [one for one in segments if mempool_id is None or tuple(mempool_id) == one["segment_pool_id"]]


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """A table of the allocator's counters for people; with ``abbreviated`` without those of small and large pieces."""
    stats = memory_stats(device)
    pools = ("all",) if abbreviated else ("all", "large_pool", "small_pool")
    rows = [
        f"npu:{device_index(device)}, bytes and pieces",
        f"{'':32}{'now':>16}{'peak':>16}{'allocated':>16}{'freed':>16}",
    ]
    for name in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes", "allocation", "segment"):
        for pool in pools:
            values = [stats.get(f"{name}.{pool}.{kind}", 0) for kind in ("current", "peak", "allocated", "freed")]
            rows.append(f"{name + ' ' + pool:32}" + "".join(f"{value:>16}" for value in values))
    rows.append(f"out of memory: {stats.get('num_ooms', 0)}")
    return "\n".join(rows)


def host_empty_cache() -> None:
    """Gives back what is cached of pinned host memory, which is nothing."""


def host_memory_stats() -> dict[str, int]:
    """Counters of pinned host memory by name."""
    return dict(_device.pinned_memory_stats())
