# SPDX-License-Identifier: Apache-2.0
"""The operators of Ascend's namespaces as names of ``torch_npu``: ``torch_npu.npu_rms_norm`` is
``torch.ops.npu.npu_rms_norm``."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from npugraph._C import device
from torch._subclasses.fake_impls import register_op_impl

_NO_KERNEL = (
    "npugraph knows sizes and types of its results alone: torch.library.impl({name!r}, 'CPU') gives it a kernel."
)


@functools.cache
def _places() -> dict[str, str]:
    """Name of an operator -> its namespace; that of ``npu`` where both have one."""
    rows = sorted(device.operators(), key=lambda row: row.name.startswith("npu::"))
    return {row.name.split("::")[1].split(".")[0]: row.name.split("::")[0] for row in rows}


def make_fake() -> None:
    """Makes operators run on fake tensors: those that are always composed as what they are composed of, each of which
    is fake; others by their Meta function, whose results have the devices of the tensors that it makes them of: not
    all arguments are on one device where lengths come from the host."""
    for row in device.operators():
        if row.is_composed and not row.whole_with:
            torch.library.register_fake(row.name, _kernel(row.name, torch._C.DispatchKey.CPU))
        elif torch._C._dispatch_has_kernel_for_dispatch_key(row.name, "Meta"):
            register_op_impl(_overload(row.name))(_under_mode(_kernel(row.name, torch._C.DispatchKey.Meta)))


def _overload(name: str) -> Any:
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def _kernel(name: str, key: torch._C.DispatchKey) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        op = _overload(name)
        with torch._C.DisableTorchFunction():  # modes for functions are given the operator, without the kernel's key
            return op._op_dk(key, *args, **kwargs)

    return call


def _under_mode(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def call(mode: Any, _: Any, *args: Any, **kwargs: Any) -> Any:
        with mode:
            return kernel(*args, **kwargs)

    return call


def names() -> list[str]:
    """All operators, without namespaces and overloads."""
    return list(_places())


def find(name: str) -> Any:
    """The operator of that name, with schemas and definitions of its overloads as ``__doc__``; None where there is
    none."""
    namespace = _places().get(name)
    if namespace is None:
        return None
    packet = getattr(getattr(torch.ops, namespace), name)
    packet.__doc__ = "\n\n".join(map(_documentation, _overloads(packet)))
    return packet


def _overloads(packet: Any) -> list[Any]:
    return [getattr(packet, overload) for overload in packet.overloads()]


def _documentation(overload: Any) -> str:
    row = next((row for row in device.operators() if row.name == overload.name().removesuffix(".default")), None)
    if row is None:
        return str(overload._schema)
    return f"{overload._schema}\n\n{row.definition or _NO_KERNEL.format(name=row.name)}"
