# SPDX-License-Identifier: Apache-2.0
"""Memory of the devices, in bytes. Nothing is cached: the reserved memory is the allocated memory."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import torch

from npugraph import _ascend as _device
from torch_npu.npu import _torch_functions as _torch
from torch_npu.npu._index import DeviceLike, device_index


def empty_cache() -> None:
    """Gives cached memory back, of which there is none.

    Raises RuntimeError while a graph is being captured, if its capture_error_mode forbids the thread raw memory.
    """
    if not torch.compiler.is_compiling():  # in a graph it does nothing and is no reason for a break
        _torch.empty_cache()


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Returns the free and the total bytes of a device.

    The total is that of NPUGRAPH_DEVICE_MEMORY, or else what the host had left at the first question or tensor, less a
    reserve. Memory that other programs have taken since then does not count as used, but an allocation that the host
    cannot serve is refused.
    """
    return _torch.get_memory_info(device_index(device))


def memory_stats(device: DeviceLike = None) -> OrderedDict[str, Any]:
    """Returns the counters of the allocator under the names of ``torch.cuda.memory_stats``, for example
    ``allocated_bytes.all.peak``."""
    return _torch.memory_stats(device_index(device))


def memory_stats_as_nested_dict(device: DeviceLike = None) -> dict[str, Any]:
    """Returns ``memory_stats`` with one dictionary for each part of a name."""
    return _nested(memory_stats(device))


def _nested(stats: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in stats.items():
        *path, last = name.split(".")
        level = nested
        for part in path:
            level = level.setdefault(part, {})
        level[last] = value
    return nested


def memory_allocated(device: DeviceLike = None) -> int:
    """Returns the bytes that tensors hold now."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Returns the most bytes that tensors held since the start, or since ``reset_peak_memory_stats``."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: DeviceLike = None) -> int:
    """Returns the bytes that the allocator holds now."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Returns the most bytes that the allocator held since the start, or since ``reset_peak_memory_stats``."""
    return memory_stats(device)["reserved_bytes.all.peak"]


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def get_allocator_backend() -> str:
    """Returns the name of the allocator, which is always the device's own."""
    return "native"


def empty_virt_addr_cache() -> None:
    """Does nothing: no address space is cached."""


_by_address: dict[int, torch.Tensor] = {}


def caching_allocator_alloc(size: int, device: DeviceLike = None, stream: torch.Stream | int | None = None) -> int:
    """Returns the address of ``size`` new bytes of the device, which ``caching_allocator_delete`` gives back.

    Raises torch.OutOfMemoryError if the device has not so many, ValueError for a negative size, and RuntimeError while
    a graph is being captured, if its capture_error_mode forbids the thread raw memory.
    """
    if size < 0:
        raise ValueError(f"caching_allocator_alloc: size is {size}, and must be at least 0")
    _device.check_may_allocate("caching_allocator_alloc()")
    # The address identifies the memory, so the memory has at least one byte.
    memory = torch.empty(max(size, 1), dtype=torch.uint8, device=torch.device("npu", device_index(device)))
    _by_address[memory.data_ptr()] = memory
    return memory.data_ptr()


def caching_allocator_delete(mem_ptr: int) -> None:
    """Gives back memory of ``caching_allocator_alloc``. Raises ValueError for any other address."""
    if _by_address.pop(mem_ptr, None) is None:
        raise ValueError(f"caching_allocator_delete: {mem_ptr:#x} is no address that caching_allocator_alloc returned")


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Sets the peaks to what is in use now."""
    _torch.reset_peak_memory_stats(device_index(device))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Sets the sums over time to 0."""
    _torch.reset_accumulated_memory_stats(device_index(device))


def set_per_process_memory_fraction(fraction: float, device: DeviceLike = None) -> None:
    """Allows only this share of the device, from 0 to 1. Allocations beyond it raise torch.OutOfMemoryError.

    Raises ValueError for another number.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction is {fraction}, and must be from 0 to 1")
    _device.set_memory_fraction(device_index(device), fraction)


def get_per_process_memory_fraction(device: DeviceLike = None) -> float:
    """Returns the share of the device that may be used."""
    return _device.memory_fraction(device_index(device))


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """Returns every piece of memory in use as a segment with one block, sorted by device and address.

    Args:
        mempool_id: only segments of this pool are returned; (0, 0) is the pool of memory outside of graphs.
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
    """Returns a table of the allocator's counters for people. With ``abbreviated`` it leaves out those of small and
    large pieces."""
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
    """Does nothing: no pinned host memory is cached."""


def host_memory_stats() -> dict[str, int]:
    """Returns the counters of pinned host memory by name."""
    return dict(_device.pinned_memory_stats())


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Returns ``host_memory_stats`` with one dictionary for each part of a name."""
    return _nested(host_memory_stats())


def reset_accumulated_host_memory_stats() -> None:
    """Sets the sums over time of pinned host memory to 0."""
    _device.reset_accumulated_pinned_memory_stats()


def reset_peak_host_memory_stats() -> None:
    """Sets the peaks of pinned host memory to what is in use now."""
    _device.reset_peak_pinned_memory_stats()


_pool_ids = itertools.count(1)


class _NPUAllocator:
    """An allocator that the user brings."""

    def __init__(self, path: str = "", alloc: str = "", free: str = ""):
        self._where = (path, alloc, free)

    def allocator(self) -> _NPUAllocator:
        """Returns the allocator itself, as pools take it."""
        return self

    _allocator = property(allocator)


class NPUPluggableAllocator(_NPUAllocator):
    """An allocator of the functions ``alloc_fn_name`` and ``free_fn_name`` of a library. They are kept by name and
    never called.

    Raises FileNotFoundError if there is no such library.
    """

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str):
        if not os.path.exists(path_to_so_file):
            raise FileNotFoundError(f"NPUPluggableAllocator: there is no file {path_to_so_file!r}")
        super().__init__(path_to_so_file, alloc_fn_name, free_fn_name)


def change_current_allocator(allocator: _NPUAllocator) -> None:
    """Has no effect: memory of npu is the host's. Raises TypeError for anything but an allocator."""
    if not isinstance(allocator, _NPUAllocator):
        raise TypeError(f"change_current_allocator takes an NPUPluggableAllocator, got {type(allocator).__name__}")


class MemPool:
    """A name for memory that graphs or ``use_mem_pool`` take. The memory of all pools comes from the same place."""

    def __init__(self, allocator: _NPUAllocator | None = None, use_on_oom: bool = False, no_split: bool = False):
        self._id = (0, next(_pool_ids))
        self._users = 0
        self.allocator = allocator
        self.use_on_oom = use_on_oom
        self.no_split = no_split

    @property
    def id(self) -> tuple[int, int]:
        """The number of the pool, which no other pool has."""
        return self._id

    def use_count(self) -> int:
        """Returns how many ``use_mem_pool`` use the pool now, plus one for the pool itself."""
        return self._users + 1

    def snapshot(self) -> list[dict[str, Any]]:
        """Returns the segments of this pool. There are none, because all memory counts as memory of the device."""
        return memory_snapshot(self.id)


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: DeviceLike = None) -> Iterator[None]:
    """Context manager. Memory that is allocated inside of it counts as memory of the device, as everywhere."""
    device_index(device)
    pool._users += 1
    try:
        yield
    finally:
        pool._users -= 1
