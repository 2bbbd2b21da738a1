# SPDX-License-Identifier: Apache-2.0
"""Arguments that name devices of CUDA, as the same devices of npu."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch

_CUDA = re.compile(r"cuda(:\d+)?")
# Arguments that are devices where they are numbers or in containers, too.
_NAMES = ("device", "device_type", "map_location", "device_id", "device_ids", "output_device", "pin_memory_device")


def as_npu(value: Any) -> Any:
    """``value``; for a device of CUDA, as a torch.device or a string, that of npu."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("npu") if value.index is None else torch.device("npu", value.index)
    if isinstance(value, str) and _CUDA.fullmatch(value):
        return value.replace("cuda", "npu")
    return value


def _named_as_npu(value: Any) -> Any:
    if isinstance(value, dict):
        return {as_npu(key): as_npu(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(as_npu, value))
    return as_npu(value)


def arguments_as_npu(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call with devices of npu in the place of those of CUDA."""
    changed = {name: _named_as_npu(value) if name in _NAMES else value for name, value in kwargs.items()}
    return tuple(map(as_npu, args)), changed


def wrapped(function: Callable) -> Callable:
    """``function``, which takes devices of CUDA for those of npu."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        args, kwargs = arguments_as_npu(args, kwargs)
        return function(*args, **kwargs)

    return call


class _ProxyType(type):
    """A class whose objects are those of ``kind``; it takes devices of CUDA for those of npu when it makes them."""

    def __call__(cls, *args, **kwargs) -> Any:
        args, kwargs = arguments_as_npu(args, kwargs)
        return cls.kind(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.kind)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.kind)


def proxy(kind: type) -> type:
    """A class in the place of ``kind``, which cannot be changed itself."""
    return _ProxyType(kind.__name__, (), {"kind": kind, "__doc__": kind.__doc__, "__module__": kind.__module__})
