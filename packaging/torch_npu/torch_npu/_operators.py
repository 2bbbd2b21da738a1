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
    """Makes operators run on fake tensors, by their Meta kernels under the fake mode: what these call is fake, too, and
    results have the devices of the tensors that they are made of, also where lengths come from the host."""
    for row in device.operators():
        if torch._C._dispatch_has_kernel_for_dispatch_key(row.name, "Meta"):
            op = overload(row.name)
            register_op_impl(op)(_under_mode(op))


def overload(name: str) -> Any:
    """The operator "npu::name" or "npu::name.out"."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def _under_mode(op: Any) -> Callable[..., Any]:
    def call(mode: Any, _: Any, *args: Any, **kwargs: Any) -> Any:
        # Modes for functions are given the operator, without the kernel's key.
        with mode, torch._C.DisableTorchFunction():
            return op._op_dk(torch._C.DispatchKey.Meta, *args, **kwargs)

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
