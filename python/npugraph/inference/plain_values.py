# SPDX-License-Identifier: Apache-2.0
"""Describes the values that conditions look at, as plain data that is the same in every process."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from typing import Any

import torch


class NotPlain(ValueError):
    """A value that plain data cannot describe."""


_SCALARS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice)
_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
_CONTAINERS = (tuple, list, set, frozenset)


def of_constant(value: Any) -> Any:
    """Returns class and content of a constant. Raises ``NotPlain`` for anything else."""
    if type(value) in (*_SCALARS, *_TORCH):
        return [type(value).__name__, repr(value)]
    if isinstance(value, enum.Enum):
        return [of_class(type(value)), value.name]
    if type(value) in _CONTAINERS:
        items = [of_constant(item) for item in value]
        return [type(value).__name__, sorted(items, key=repr) if isinstance(value, (set, frozenset)) else items]
    if type(value) is dict:
        return ["dict", [[of_constant(key), of_constant(item)] for key, item in value.items()]]
    return of_named(value)


def of_class(value: type) -> str:
    return f"{value.__module__}:{value.__qualname__}"


def of_named(value: Any, depth: int = 2) -> Any:
    """Describes a module, class, operator or function by its name. A function is also described by its line and by the
    values that it closes over, down to ``depth`` functions inside of each other. Raises ``NotPlain`` for anything
    else."""
    if isinstance(value, types.ModuleType):
        return ["module", value.__name__]
    if isinstance(value, type):
        return ["class", of_class(value)]
    if isinstance(value, types.FunctionType):
        cells = [of_cell(cell, depth) for cell in value.__closure__ or ()] if depth else []
        return ["function", f"{value.__module__}:{value.__qualname__}", *of_code(value.__code__), cells]
    if isinstance(value, types.MethodType):
        return ["method", of_named(value.__func__, depth)]
    if isinstance(value, types.CodeType):
        return ["code", *of_code(value)]
    if isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return ["operator", str(value)]
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if callable(value) and name and isinstance(value, _NATIVE):
        owner = getattr(value, "__module__", None) or getattr(getattr(value, "__objclass__", None), "__name__", "")
        return ["native", f"{owner}:{name}"]
    raise NotPlain(f"{type(value).__name__} {str(value)[:60]}")


_NATIVE = (
    *(types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType, types.MethodWrapperType),
    *(types.ClassMethodDescriptorType, types.GetSetDescriptorType),
)


def of_code(code: types.CodeType) -> list[Any]:
    """Returns the name of a function and its line. Changes of its text are noticed by the digest of its file."""
    return [code.co_name, code.co_firstlineno]


def of_cell(cell: types.CellType, depth: int) -> Any:
    try:
        content = cell.cell_contents
    except ValueError:
        return ["empty"]
    if isinstance(content, types.FunctionType):
        return of_named(content, depth - 1)
    if isinstance(content, torch.nn.Module):
        return ["class", of_class(type(content))]
    return of_constant(content)


def is_group(value: Any) -> bool:
    return torch.distributed.is_available() and isinstance(value, torch.distributed.ProcessGroup)


def of_group(value: Any) -> list[int]:
    """Returns the ranks of a process group. Raises ``NotPlain`` for anything else."""
    if not is_group(value):
        raise NotPlain(f"{type(value).__name__} {str(value)[:60]}")
    return torch.distributed.get_process_group_ranks(value)


def of_tensor(tensor: torch.Tensor, sizes: Any, strides: Any) -> dict[str, Any]:
    """Describes a tensor, with the given sizes and strides. Sizes and strides that are None may be any."""
    return {
        "class": of_class(type(tensor)),
        "dtype": str(tensor.dtype),
        "device": str(tensor.device),
        "layout": str(tensor.layout),
        "requires_grad": tensor.requires_grad,
        "lazy": [tensor.is_conj(), tensor.is_neg()],
        "sizes": sizes,
        "strides": strides,
    }


def tensor_test(wanted: dict[str, Any]) -> Callable[[Any], bool]:
    """Returns a test whether a value is a tensor that fits ``wanted``, a description by ``of_tensor``."""
    sizes, strides = wanted["sizes"], wanted["strides"]
    plain = {key: wanted[key] for key in wanted if key not in ("sizes", "strides")}
    known: dict[Any, bool] = {}  # results by properties that are quick to read

    def test(tensor: Any) -> bool:
        if not isinstance(tensor, torch.Tensor):
            return False
        key = (type(tensor), tensor.dtype, tensor.device, tensor.layout, tensor.requires_grad)
        key = (*key, tensor.is_conj(), tensor.is_neg())
        fits = known.get(key)
        if fits is None:
            found = of_tensor(tensor, None, None)
            fits = known[key] = all(found[name] == value for name, value in plain.items())
        if not fits or tensor.layout is not torch.strided:
            return False
        return match(tensor.shape, sizes) and match(tensor.stride(), strides)

    return test


def match(found: Any, wanted: list[Any]) -> bool:
    """Whether sizes or strides are as wanted. Wanted ones that are None may be any."""
    pairs = zip(found, wanted, strict=False)
    return len(found) == len(wanted) and all(want is None or have == want for have, want in pairs)


def of_torch_state() -> list[Any]:
    """Returns the settings of torch that change what operators do."""
    devices = ["cpu", torch._C._get_privateuse1_backend_name()]
    return [
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        [
            [torch.is_autocast_enabled(device), str(torch.get_autocast_dtype(device))]
            for device in _with_autocast(devices)
        ],
        str(torch.get_default_dtype()),
        str(torch.get_default_device()),
        torch.are_deterministic_algorithms_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
        torch._C._len_torch_function_stack(),
        torch._C._len_torch_dispatch_stack(),
        torch._C._functorch.peek_interpreter_stack() is None,
        torch._C._is_torch_function_enabled(),
    ]


def _with_autocast(devices: list[str]) -> list[str]:
    return [device for device in devices if torch.amp.is_autocast_available(device)]
