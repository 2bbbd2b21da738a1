# SPDX-License-Identifier: Apache-2.0
"""Arguments that name devices of CUDA, as the same devices of npu."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.utils._device import _device_constructors

# A device, or the name of a type of tensors.
_CUDA = re.compile(r"cuda(:\d+)?|torch\.cuda\.\w+Tensor")
# Asked before any of them is replaced: torch keeps its first answer.
_CONSTRUCTORS = frozenset(_device_constructors())
# Arguments that are devices, in containers, too.
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


def arguments_as_npu(
    args: tuple[Any, ...], kwargs: dict[str, Any], places: Collection[int] = ()
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call with devices of npu in the place of those of CUDA; ``places`` of ``args`` are devices."""
    changed = {name: _named_as_npu(value) if name in _NAMES else as_npu(value) for name, value in kwargs.items()}
    return tuple(_named_as_npu(one) if at in places else as_npu(one) for at, one in enumerate(args)), changed


def _parameters(function: Callable) -> list[str]:
    """Names, in order; none for functions in C, of which Python knows no signature."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


@functools.cache
def names_in_c() -> frozenset[str]:
    """ATen operators that take a device."""
    schemas = torch._C._jit_get_all_schemas()
    taking = {one.name for one in schemas if any(argument.name == "device" for argument in one.arguments)}
    return frozenset(name.removeprefix("aten::") for name in taking if name.startswith("aten::"))


def takes_devices(function: Callable, operator: str) -> bool:
    """Whether an argument of ``function``, which calls ``operator`` of ATen where it is written in C, is a device."""
    if inspect.isbuiltin(function):
        return function in _CONSTRUCTORS or operator in names_in_c()
    return not _NAMES.isdisjoint(_parameters(function))


@functools.cache
def wrapped(function: Callable) -> Callable:
    """``function``, which takes devices of CUDA for those of npu."""
    places = frozenset(at for at, name in enumerate(_parameters(function)) if name in _NAMES)

    @functools.wraps(function)
    def call(*args, **kwargs):
        args, kwargs = arguments_as_npu(args, kwargs, places)
        return function(*args, **kwargs)

    return call


def under_names_of(theirs: Any, ours: Any) -> Any:
    """``ours``, whose arguments may have the names that ``theirs``, of CUDA, has in their places, too."""
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
