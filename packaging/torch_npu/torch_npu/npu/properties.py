# SPDX-License-Identifier: Apache-2.0
"""Properties of the devices."""

from __future__ import annotations

import dataclasses
import os
import uuid

from npugraph import _ascend as _device
from torch_npu.npu._index import DeviceLike, device_index


@dataclasses.dataclass(frozen=True)
class _NPUDeviceProperties:
    """Facts about one device. Memory and cache are in bytes."""

    name: str
    total_memory: int
    cube_core_num: int
    vector_core_num: int
    L2_cache_size: int
    uuid: uuid.UUID
    major: int = 0
    minor: int = 0
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    multi_processor_count: int = 0
    max_threads_per_multi_processor: int = 0
    warp_size: int = 0
    regs_per_multiprocessor: int = 0
    gcnArchName: str = ""


def is_available() -> bool:
    """Whether there is an npu device."""
    return _device.count() > 0


def is_initialized() -> bool:
    """Whether the device is ready, which it always is."""
    return True


def init() -> None:
    """Does nothing: the device is always ready."""


def npurt() -> None:
    """Returns None: there is no driver whose functions could be called."""


def device_count() -> int:
    """Returns the number of devices; NPUGRAPH_DEVICES sets it."""
    return _device.count()


def get_device_name(device_name: DeviceLike = None) -> str:
    """Returns the product's name, for example Ascend910B1; NPUGRAPH_DEVICE_NAME sets it."""
    device_index(device_name)
    return _device.facts()["name"]


def get_device_properties(device_name: DeviceLike = None) -> _NPUDeviceProperties:
    """Returns facts about a device: name, memory, cores."""
    index = device_index(device_name)
    facts = _device.facts()
    return _NPUDeviceProperties(
        name=facts["name"],
        total_memory=facts["memory_bytes"],
        cube_core_num=facts["cube_cores"],
        vector_core_num=facts["vector_cores"],
        L2_cache_size=facts["l2_cache_bytes"],
        uuid=uuid.uuid5(uuid.NAMESPACE_OID, f"npu:{index}"),
    )


def get_device_capability(device: DeviceLike = None) -> tuple[int, int] | None:
    """Returns None, because an NPU has no compute capability, or the value of
    TORCH_NPU_DEVICE_CAPABILITY="major.minor".

    Raises ValueError if the variable has another form.
    """
    device_index(device)
    text = os.environ.get("TORCH_NPU_DEVICE_CAPABILITY")
    if not text:
        return None
    major, dot, minor = text.partition(".")
    if not (dot and major.isdecimal() and minor.isdecimal()):
        raise ValueError(f"TORCH_NPU_DEVICE_CAPABILITY={text!r}: expected major.minor, for example 8.0")
    return int(major), int(minor)


def can_device_access_peer(device_id: int, peer_device_id: int) -> bool:
    """Whether one device reaches the memory of another. All are one host's, so this is true for any two devices."""
    return device_index(device_id) != device_index(peer_device_id)


def is_bf16_supported(including_emulation: bool = False) -> bool:
    """Whether tensors of bfloat16 work, which they do."""
    return True


def utilization(device: DeviceLike = None) -> int:
    """Returns the percentage of the device in use, which is 0: eager work is done when its call returns."""
    device_index(device)
    return 0
