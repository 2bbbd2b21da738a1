# SPDX-License-Identifier: Apache-2.0
"""Lets scripts that were written for CUDA run on npu.

    from torch_npu.contrib import transfer_to_npu  # or TORCH_TRANSFER_TO_NPU=1 before ``import torch``

Afterwards ``torch.cuda`` does what ``torch.npu`` does, and "cuda" means npu in arguments of functions that make and
move tensors, and of modules, autocast, generators, loaders, files, the profiler and process groups. ``torch.compile``
without a backend uses ``npugraph_ex``.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch
import torch.fft
import torch.nested
import torch.signal.windows
import torch.utils._device

import torch_npu.profiler
from npugraph.options import CompilerConfig
from torch_npu.contrib._cuda_as_npu import (
    arguments_as_npu,
    as_npu,
    names_in_c,
    proxy,
    takes_devices,
    under_names_of,
    wrapped,
)
from torch_npu.npu import _index, _torch_functions
from torch_npu.npu._legacy_types import dtype_of_type

# Modules with functions and classes that take devices. The value is the beginning of their operators' names, for
# modules that are written in C.
_MODULES = {
    torch: "",
    torch.accelerator: "",
    torch.amp: "",
    torch.amp.autocast_mode: "",
    torch.fft: "fft_",
    torch.nested: "",
    torch.nn.parallel: "",
    torch.random: "",
    torch.serialization: "",
    torch.signal.windows: "",
    torch.utils._device: "",
    torch.utils.data: "",
    _torch_functions: "",
}
# Functions that take devices without a signature that says so.
_MORE = {
    torch: (
        "get_autocast_dtype",
        "is_autocast_enabled",
        "set_autocast_dtype",
        "set_autocast_enabled",
    ),
    torch.Tensor: ("new", "new_tensor", "type"),
    torch.nn.Module: ("to", "to_empty"),
}


def _replace(owner: Any, name: str, made: Callable[[Any], Any]) -> None:
    """Puts ``made(attribute)`` in the place of the attribute ``name`` of ``owner``, if there is one."""
    found = getattr(owner, name, None)
    if found is not None:
        setattr(owner, name, made(found))


def _names_of_cuda() -> None:
    """Makes the names of ``torch.cuda`` and of its parts those of ``torch.npu``."""
    npu, cuda = torch.npu, torch.cuda
    _index.types.add("cuda")
    for name in (*npu.__all__, "_lazy_init", "_lazy_call", "_is_in_bad_fork"):
        if name != "amp":
            setattr(cuda, name, under_names_of(getattr(cuda, name, None), getattr(npu, name)))
    cuda.get_device_capability = _capability
    for part in ("memory", "random", "streams"):
        theirs, ours = sys.modules[f"torch.cuda.{part}"], sys.modules[f"torch_npu.npu.{part}"]
        _take(theirs, ours)
    _take(cuda.amp, npu.amp)
    for name in ("mark", "range_push", "range_pop", "range_start", "range_end"):
        setattr(cuda.nvtx, name, getattr(npu.mstx, name))
    cuda.nvtx.range = npu.mstx.mstx_range
    if hasattr(npu, "NPUGraph"):
        cuda.CUDAGraph = npu.NPUGraph


def _take(theirs: ModuleType, ours: ModuleType) -> None:
    for name in vars(ours):
        if not name.startswith("_") and hasattr(theirs, name):
            setattr(theirs, name, under_names_of(getattr(theirs, name), getattr(ours, name)))


def _capability(device: Any = None) -> tuple[int, int]:
    """Returns the capability of npu. If it has none, returns that of a device with all that scripts ask for."""
    return torch.npu.get_device_capability(*arguments_as_npu((device,), {})[0]) or (8, 0)


def _arguments() -> None:
    """Wraps functions, methods and classes that take devices."""
    for module, operators in (_MODULES | dict.fromkeys(_distributed_modules(), "")).items():
        for name, found in list(vars(module).items()):
            if name.startswith("_"):
                continue
            kind = type(found)  # isinstance() asks the objects, and some of them warn
            if issubclass(kind, type):
                if "__init__" in vars(found) and takes_devices(found.__init__, ""):
                    found.__init__ = wrapped(found.__init__)
            elif issubclass(kind, FunctionType | BuiltinFunctionType) and takes_devices(found, operators + name):
                setattr(module, name, wrapped(found))
    for owner, names in (_MORE | {torch.Tensor: (*_MORE[torch.Tensor], *names_in_c())}).items():
        for name in names:
            _replace(owner, name, wrapped)
    torch.accelerator._utils._get_device_index = wrapped(torch.accelerator._utils._get_device_index)
    for module in ("torch._utils", "torch.nn.parallel.data_parallel"):
        sys.modules[module]._get_available_device_type = lambda: "npu"  # torch asks torch.cuda.is_available() first
    torch.set_default_tensor_type = _default_type(torch.set_default_tensor_type)
    torch.Generator = proxy(torch.Generator)
    torch.Event = proxy(torch.Event)


def _distributed_modules() -> tuple[ModuleType, ...]:
    import torch.distributed as dist

    return (dist, dist.distributed_c10d, dist.device_mesh) if dist.is_available() else ()


def _default_type(function: Callable) -> Callable:
    """Wraps ``torch.set_default_tensor_type``. torch has no tensor types of npu, so that an element type and a device
    stand for them."""

    @functools.wraps(function)
    def call(t: Any) -> None:
        dtype = dtype_of_type(as_npu(t))
        if dtype is None:
            function(t)
        else:
            torch.set_default_dtype(dtype)
        torch.set_default_device(None if dtype is None else "npu")

    return call


def _moves() -> None:
    """Replaces ``cuda()`` and ``is_cuda`` by ``npu()`` and ``is_npu``."""
    for kind in (torch.Tensor, torch.nn.Module, torch.UntypedStorage):
        kind.cuda = wrapped(kind.npu)
    torch.Tensor.is_cuda = property(lambda self: self.is_npu)
    torch.nn.utils.rnn.PackedSequence.cuda = wrapped(_packed_to_npu)


def _uninitialized() -> None:
    """Lets tensors of lazy modules know the replaced methods of tensors that they allow."""
    allowed = torch.nn.parameter.UninitializedTensorMixin._allowed_methods
    names = [method.__name__ for method in allowed]
    allowed += [method for name in names if (method := getattr(torch.Tensor, name, None)) not in (None, *allowed)]


def _packed_to_npu(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self.to("npu", *args, **kwargs)


def _script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns ``obj`` itself, with a warning."""
    warnings.warn("torch.jit.script does nothing after transfer_to_npu", stacklevel=2)
    return obj


def _process_groups() -> None:
    """Makes process groups of NCCL those of HCCL."""
    import torch.distributed as dist

    if not dist.is_available():
        return

    def with_hccl(function: Callable) -> Callable:
        @functools.wraps(function)
        def call(*args, **kwargs):
            args, kwargs = arguments_as_npu(args, kwargs)
            args = tuple(_as_hccl(value) for value in args)
            if "backend" in kwargs:
                kwargs["backend"] = _as_hccl(kwargs["backend"])
            return function(*args, **kwargs)

        return call

    for module in (dist, dist.distributed_c10d):
        for name in ("init_process_group", "new_group"):
            _replace(module, name, with_hccl)
        if hasattr(module, "ProcessGroupHCCL"):
            module.ProcessGroupNCCL = module.ProcessGroupHCCL
    dist.is_nccl_available = getattr(dist, "is_hccl_available", dist.is_nccl_available)


def _as_hccl(value: Any) -> Any:
    return value.replace("nccl", "hccl").replace("cuda", "npu") if isinstance(value, str) else value


def _compile(function: Callable) -> Callable:
    """Wraps ``torch.compile`` so that its default backend is ``npugraph_ex``. Without a backend, modes and options are
    meant for Inductor: the mode is dropped, and of the options those that ``npugraph_ex`` has, too, are kept."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("backend") is None:
            kwargs = {name: value for name, value in kwargs.items() if name != "mode"} | {"backend": "npugraph_ex"}
            kwargs["options"] = _known_options(kwargs.get("options"))
        return function(*args, **kwargs)

    return call


def _known_options(options: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the options that ``npugraph_ex`` has, too. Warns with the names of the others."""
    known = CompilerConfig().as_dict()
    if left_out := sorted(set(options or ()) - known.keys()):
        warnings.warn(
            f"options of torch.compile that npugraph_ex does not have are left out: {', '.join(left_out)}", stacklevel=3
        )
    return options and {name: value for name, value in options.items() if name in known}


def _tools() -> None:
    """Replaces torch.compile, the profiler, TorchScript's ``script``, and the question whether there is Triton."""
    for name in ("profile", "schedule", "tensorboard_trace_handler"):
        setattr(torch.profiler, name, getattr(torch_npu.profiler, name))
    torch.compile = _compile(torch.compile)
    torch.jit.script = _script
    import torch.utils._triton as triton

    triton.has_triton = functools.cache(lambda: False)


def _transfer() -> None:
    _names_of_cuda()
    _arguments()
    _moves()
    _uninitialized()
    _process_groups()
    _tools()


_transfer()
