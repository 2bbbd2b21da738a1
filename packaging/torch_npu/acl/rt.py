# SPDX-License-Identifier: Apache-2.0
"""Memory and devices of Ascend's runtime, on host memory. Functions return 0, or the driver's error code, alone or as
the last value."""

import ctypes

import torch

# The driver's errors for an argument that is not allowed, and for too little memory.
_INVALID_PARAM = 100000
_OUT_OF_MEMORY = 200000


def memcpy(dst: int, dest_max: int, src: int, count: int, kind: int) -> int:
    """Copies ``count`` bytes from the address ``src`` to ``dst``, which has room for ``dest_max``. All kinds do the
    same."""
    if not 0 <= count <= dest_max:
        return _INVALID_PARAM
    ctypes.memmove(dst, src, count)
    return 0


def malloc(size: int, policy: int) -> tuple[int, int]:
    """Returns the address of ``size`` new bytes of the current device, or the address 0 with an error."""
    if size <= 0:
        return 0, _INVALID_PARAM
    try:
        return torch.npu.caching_allocator_alloc(size), 0
    except torch.OutOfMemoryError:
        return 0, _OUT_OF_MEMORY


def free(dev_ptr: int) -> int:
    """Gives back memory of ``malloc``."""
    try:
        torch.npu.caching_allocator_delete(dev_ptr)
    except ValueError:
        return _INVALID_PARAM
    return 0


def get_mem_info(attr: int) -> tuple[int, int, int]:
    """Returns the free and the total bytes of the current device."""
    return *torch.npu.mem_get_info(), 0


def set_device(device_id: int) -> int:
    """Makes ``device_id`` the current device."""
    if not 0 <= device_id < torch.npu.device_count():
        return _INVALID_PARAM
    torch.npu.set_device(device_id)
    return 0


def get_device() -> tuple[int, int]:
    """Returns the current device."""
    return torch.npu.current_device(), 0


def get_device_count() -> tuple[int, int]:
    """Returns the number of devices."""
    return torch.npu.device_count(), 0


def synchronize_device() -> int:
    """Waits until all work on the current device is done."""
    torch.npu.synchronize()
    return 0
