# SPDX-License-Identifier: Apache-2.0
"""Names that scripts take from the extension module of Ascend's package. The one of this package is
``npugraph._ascend``."""

import ctypes
from typing import Any

import torch

from npugraph import _ascend as _device
from torch_npu._C import _distributed_c10d as _distributed_c10d
from torch_npu.npu._index import DeviceLike, device_index
from torch_npu.npu.cann import get_soc_version
from torch_npu.npu.utils import default_stream

_NPUEventBase = torch.Event
_NPUGraph = _device.CapturedGraph
_NPUStreamBase = torch.Stream
_NPUTaskGroupHandle = _device.TaskGroup


def _weak_ref_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor over the memory of ``tensor``. It keeps that memory alive, so that a captured graph knows that
    the memory can still be seen. Its storage cannot be resized.

    Raises TypeError unless ``tensor`` is a tensor of npu.
    """
    if not isinstance(tensor, torch.Tensor) or not tensor.is_npu:
        given = tensor.device if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise TypeError(f"_weak_ref_tensor: tensor is {given}, and must be a tensor of npu")
    return _device.borrow(tensor.detach())


def _construct_storage_from_data_pointer(data_ptr: int, device: DeviceLike, nbytes: int) -> torch.UntypedStorage:
    """Returns a storage of npu over ``nbytes`` bytes of the host's memory. Somebody else owns the memory and must free
    it after the storage is gone."""
    index = device_index(device)
    if nbytes == 0:
        return torch.UntypedStorage(0, device=torch.device("npu", index))
    memory = (ctypes.c_uint8 * nbytes).from_address(data_ptr)
    return _device.npu_alias(torch.frombuffer(memory, dtype=torch.uint8), index).untyped_storage()


def _construct_NPU_Tensor_From_Storage_And_Metadata(
    metadata: dict[str, Any], storage: torch.UntypedStorage
) -> torch.Tensor:
    """Returns a tensor over ``storage`` with the ``size``, ``stride``, ``storage_offset``, ``dtype`` and ``device`` of
    ``metadata``. torch has the same function for its graphs on CUDA."""
    empty = torch.empty(0, dtype=metadata["dtype"], device=metadata["device"])
    return empty.set_(storage, metadata["storage_offset"], metadata["size"], metadata["stride"])


def _npu_get_soc_version() -> int:
    """Returns ``torch.npu.get_soc_version()``."""
    return get_soc_version()


def _npu_getDefaultStream(device_index: int) -> tuple[int, int, int]:
    """Returns the stream id, the device index and the device type of the default stream of a device."""
    stream = default_stream(device_index)
    return stream.stream_id, stream.device_index, stream.device_type


def _aclnn_reselect_static_kernel() -> None:
    """Does nothing: kernels are not chosen ahead of calls."""


def _aclop_start_dump(path: str) -> None:
    """Does nothing: there is no driver that dumps."""


def _aclop_stop_dump() -> None:
    """Does nothing: there is no driver that dumps."""
