# SPDX-License-Identifier: Apache-2.0
"""Sends tensors and events of npu to other processes. The memory of a tensor becomes shared memory, of which only the
name is sent, so that both processes have the same memory."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions
from torch.multiprocessing.reductions import StorageWeakRef

from npugraph import _ascend as _device

__all__ = ["rebuild_npu_event", "rebuild_npu_tensor"]

# The manager and the name of the shared memory, its bytes, and the format of the storage.
Handle = tuple[bytes, bytes, int, int]

# Maps the name of shared memory to the npu storage over it in this process.
_here: dict[bytes, StorageWeakRef] = {}


def rebuild_npu_event(device: torch.device, handle: bytes) -> torch.npu.Event:
    """Returns the event of another process."""
    return torch.npu.Event.from_ipc_handle(device, handle)


def _reduce_event(event: torch.npu.Event) -> tuple[Any, ...]:
    return rebuild_npu_event, (event.device, event.ipc_handle())


def rebuild_npu_tensor(
    tensor_cls: type,
    tensor_size: torch.Size,
    tensor_stride: tuple[int, ...],
    tensor_offset: int,
    storage_cls: type,
    dtype: torch.dtype,
    storage_device: int,
    storage_handle: Handle | None,
    storage_size_bytes: int,
    storage_offset_bytes: int,
    requires_grad: bool,
    ref_counter_handle: bytes | None,
    ref_counter_offset: int,
    event_handle: bytes | None,
    event_sync_required: bool,
) -> torch.Tensor:
    """Returns a tensor over the memory of a tensor of another process. Its arguments are those that ``reduce_tensor``
    returns.

    Args:
        tensor_cls: torch.Tensor or a subclass of it.
        storage_device: index of the device; any device of this process will do.
        storage_handle: name of the memory, or None if it has no bytes.
    """
    storage = _storage(storage_device, storage_handle)
    tensor = torch._utils._rebuild_tensor(
        torch.storage.TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True),
        tensor_offset,
        tensor_size,
        tensor_stride,
    )
    if tensor_cls is torch.nn.parameter.Parameter:
        return torch.nn.parameter.Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)


def _storage(device: int, handle: Handle | None) -> torch.UntypedStorage:
    if handle is None:
        return torch.UntypedStorage(0, device=torch.device("npu", device))
    manager, name, size, tag = handle
    for known in [known for known, one in _here.items() if one.expired()]:
        del _here[known]
    # This counts the process among the holders of the memory, and no longer counts the message.
    shared = reductions.rebuild_storage_filename(torch.UntypedStorage, manager, name, size)
    if name in _here:
        found = torch.UntypedStorage._new_with_weak_ptr(_here[name].cdata)
        if found is not None and found.device.index == device:
            return found
    npu = _device.npu_alias(torch.empty(0, dtype=torch.uint8).set_(shared), device)
    _device.set_format(npu, tag)
    _here[name] = StorageWeakRef(npu.untyped_storage())
    return npu.untyped_storage()


def _handle(tensor: torch.Tensor) -> Handle | None:
    if tensor.untyped_storage().nbytes() == 0:
        return None
    storage = _device.cpu_alias(tensor.detach()).untyped_storage()
    manager, name, size = storage._share_filename_cpu_()  # moves the bytes unless they are shared already
    _device.follow_host_storage(tensor)
    storage._shared_incref()  # holds the memory until the other process has it
    reductions.shared_cache[name] = StorageWeakRef(storage)
    _here[name] = StorageWeakRef(tensor.untyped_storage())
    return manager, name, size, _device.format(tensor)


def _reduce_npu_tensor(tensor: torch.Tensor) -> tuple[Any, ...]:
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "a tensor that is not a leaf and requires a gradient cannot go to another process: "
            "autograd works in one process; send tensor.detach()"
        )
    handle = _handle(tensor)
    return rebuild_npu_tensor, (
        type(tensor),
        tensor.size(),
        tensor.stride(),
        tensor.storage_offset(),
        torch.UntypedStorage,
        tensor.dtype,
        tensor.device.index,
        handle,
        tensor.untyped_storage().nbytes(),
        0,
        tensor.requires_grad,
        None,
        0,
        None,
        False,
    )


_reduce_others = reductions.reduce_tensor


def reduce_tensor(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Returns a function and its arguments, which make ``tensor`` in another process over the same memory. Raises
    RuntimeError for an npu tensor that requires a gradient and is not a leaf."""
    return _reduce_npu_tensor(tensor) if tensor.device.type == "npu" else _reduce_others(tensor)


def install() -> None:
    """Makes torch.multiprocessing send tensors and events of npu."""
    reductions.reduce_tensor = reduce_tensor
    for kind in (torch.Tensor, torch.nn.Parameter, *torch._tensor_classes):
        ForkingPickler.register(kind, reduce_tensor)
    ForkingPickler.register(torch.npu.Event, _reduce_event)
