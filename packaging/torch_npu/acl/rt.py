# SPDX-License-Identifier: Apache-2.0
"""Memory and devices of Ascend's runtime, over host memory."""

import ctypes

import torch

# The driver's error for an argument that is not allowed.
_INVALID_PARAM = 100000
_OUT_OF_MEMORY = 200000


def memcpy(dst: int, dest_max: int, src: int, count: int, kind: int) -> int:
    """Copies ``count`` bytes from address ``src`` to ``dst``, where there is room for ``dest_max``. Kinds are alike."""
    if not 0 <= count <= dest_max:
        return _INVALID_PARAM
    ctypes.memmove(dst, src, count)
    return 0


def malloc(size: int, policy: int) -> tuple[int, int]:
    """Address of ``size`` new bytes of the current device."""
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
    """Free and total bytes of the current device."""
    return *torch.npu.mem_get_info(), 0


def set_device(device_id: int) -> int:
    """Makes it the current device."""
    if not 0 <= device_id < torch.npu.device_count():
        return _INVALID_PARAM
    torch.npu.set_device(device_id)
    return 0


def get_device() -> tuple[int, int]:
    """The current device."""
    return torch.npu.current_device(), 0


def get_device_count() -> tuple[int, int]:
    """How many devices there are."""
    return torch.npu.device_count(), 0


def synchronize_device() -> int:
    """Waits until all work on the current device is done."""
    torch.npu.synchronize()
    return 0
