# SPDX-License-Identifier: Apache-2.0
"""Files that hold tensors."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import torch
from torch.serialization import DEFAULT_PROTOCOL, MAP_LOCATION, FileLike

from torch_npu.npu import _torch_functions as _torch

__all__ = ["load", "save_async"]


def load(
    f: FileLike,
    map_location: MAP_LOCATION = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Calls ``torch.load``."""
    return _torch.load(f, map_location, pickle_module, weights_only=weights_only, mmap=mmap, **pickle_load_args)


def _copied(obj: Any) -> Any:
    """Returns ``obj`` with CPU copies of the tensors in its dictionaries, lists and tuples, so that later changes are
    not saved."""
    if isinstance(obj, torch.Tensor):
        return obj.detach().to("cpu", copy=True)
    if isinstance(obj, dict):
        return type(obj)((key, _copied(value)) for key, value in obj.items())
    if isinstance(obj, list | tuple) and type(obj) in (list, tuple):
        return type(obj)(map(_copied, obj))
    return obj


def save_async(
    obj: object,
    f: FileLike,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
    model: torch.nn.Module | None = None,
) -> None:
    """Calls ``torch.save`` in another thread. It saves tensors with their present values, as tensors of the CPU. The
    process waits for the thread at its end."""
    thread = threading.Thread(
        target=_torch.save,
        args=(
            _copied(obj),
            f,
            pickle_module,
            pickle_protocol,
            _use_new_zipfile_serialization,
            _disable_byteorder_record,
        ),
    )
    thread.start()
