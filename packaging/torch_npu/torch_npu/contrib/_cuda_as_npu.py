# SPDX-License-Identifier: Apache-2.0
"""Replaces devices of CUDA in the arguments of calls by the same devices of npu."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.utils._device import _device_constructors

# Matches a device, or the name of a type of tensors.
_CUDA = re.compile(r"cuda(:\d+)?|torch\.cuda\.\w+Tensor")
# torch is asked before any of these functions is replaced, because it keeps its first answer.
_CONSTRUCTORS = frozenset(_device_constructors())
# Names of arguments that are devices, or containers of devices.
_NAMES = {
    "device",
    "device_id",
    "device_ids",
    "device_type",
    "devices",
    "map_location",
    "output_device",
    "pin_memory_device",
}


def as_npu(value: Any) -> Any:
    """Returns ``value``, with npu in the place of CUDA if it is a torch.device or a string that names a device or a
    type of tensors."""
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


def arguments_as_npu(
    args: tuple[Any, ...], kwargs: dict[str, Any], places: Collection[int] = ()
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a call with devices of npu in the place of those of CUDA. ``places`` are the positions
    in ``args`` of devices and of containers of devices."""
    changed = {name: _named_as_npu(value) if name in _NAMES else as_npu(value) for name, value in kwargs.items()}
    return tuple(_named_as_npu(one) if at in places else as_npu(one) for at, one in enumerate(args)), changed


def _parameters(function: Callable) -> list[str]:
    """Returns the names of the parameters in order. Python knows none for functions in C that have no signature."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


@functools.cache
def names_in_c() -> frozenset[str]:
    """Returns the names of the ATen operators that take a device."""
    schemas = torch._C._jit_get_all_schemas()
    taking = {one.name for one in schemas if any(argument.name == "device" for argument in one.arguments)}
    return frozenset(name.removeprefix("aten::") for name in taking if name.startswith("aten::"))


def takes_devices(function: Callable, operator: str) -> bool:
    """Whether an argument of ``function`` is a device. A function that is written in C calls the ATen operator
    ``operator``."""
    if inspect.isbuiltin(function):
        return function in _CONSTRUCTORS or operator in names_in_c()
    return not _NAMES.isdisjoint(_parameters(function))


@functools.cache
def wrapped(function: Callable) -> Callable:
    """Returns a wrapper of ``function`` that takes devices of CUDA for those of npu."""
    places = frozenset(at for at, name in enumerate(_parameters(function)) if name in _NAMES)

    @functools.wraps(function)
    def call(*args, **kwargs):
        args, kwargs = arguments_as_npu(args, kwargs, places)
        return function(*args, **kwargs)

    return call


def under_names_of(theirs: Any, ours: Any) -> Any:
    """Returns ``ours``, changed so that its arguments may also have the names that ``theirs``, its counterpart for
    CUDA, has in their places."""
    before, after = _parameters(theirs), _parameters(ours)
    names = {a: b for a, b in zip(before, after, strict=False) if a not in after and b not in before}
    if not names:
        return ours
    function = ours.__init__ if isinstance(ours, type) else ours

    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **{names.get(name, name): value for name, value in kwargs.items()})

    if not isinstance(ours, type):
        return call
    ours.__init__ = call
    return ours


class _ProxyType(type):
    """The type of a class that stands in for ``kind``. Calling that class makes an object of ``kind``, and takes
    devices of CUDA for those of npu."""

    def __call__(cls, *args, **kwargs) -> Any:
        args, kwargs = arguments_as_npu(args, kwargs)
        return cls.kind(*args, **kwargs)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.kind)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.kind)


def proxy(kind: type) -> type:
    """Returns a class that stands in for ``kind``, which cannot be changed itself."""
    return _ProxyType(kind.__name__, (), {"kind": kind, "__doc__": kind.__doc__, "__module__": kind.__module__})
