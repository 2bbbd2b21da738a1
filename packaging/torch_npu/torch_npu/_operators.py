# SPDX-License-Identifier: Apache-2.0
"""The operators of Ascend's namespaces as names of ``torch_npu``: ``torch_npu.npu_rms_norm`` is
``torch.ops.npu.npu_rms_norm``."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx.node
from torch._decomp import decomposition_table, meta_table
from torch._subclasses.fake_impls import op_implementations_dict, register_fast_op_impl, register_op_impl
from torch.utils import _pytree as pytree

from npugraph import _ascend as device
from npugraph import npu_kernels

NAMESPACES = ("npu", "atb")

aten = torch.ops.aten

# Operators whose fake results, of torch's making, depend on the device. Npu runs the kernels of cpu, so what it returns
# has the sizes, types and strides of cpu.
_AS_ON_CPU = (
    aten._convolution.default,
    aten._embedding_bag.default,
    aten._embedding_bag_forward_only.default,
    aten._native_batch_norm_legit_no_training.default,
    aten.convolution.default,
    aten.convolution_backward.default,
    aten.native_layer_norm.default,
    aten.nonzero_static.default,
    aten.pixel_shuffle.default,
)

_GATHERED_STATS = aten.batch_norm_gather_stats_with_counts.default

_NO_KERNEL = (
    "npugraph knows sizes and types of its results alone: torch.library.impl({name!r}, 'CPU') gives it a kernel."
)


@functools.cache
def names(namespace: str) -> frozenset[str]:
    """Returns the names of the operators of a namespace, without the namespace and without overloads."""
    rows = (row.name.split("::") for row in device.operators())
    return frozenset(name.split(".")[0] for space, name in rows if space == namespace)


def make_fake() -> None:
    """Makes operators run on fake tensors: their Meta kernels run under the fake mode. Operators that a Meta kernel
    calls are then fake, too. Results have the devices of the tensors that they are made of, even if lengths come from
    the host."""
    for row in device.operators():
        if torch._C._dispatch_has_kernel_for_dispatch_key(row.name, "Meta"):
            op = overload(row.name)
            register_op_impl(op)(_under_mode(op))
    for op in _AS_ON_CPU:
        op_implementations_dict[op] = _as_on_cpu(op_implementations_dict.get(op))
    for op in npu_kernels.OPERATORS:
        register_op_impl(op)(_as_on_npu(op))
        if op in decomposition_table and op not in meta_table:  # if sizes are symbols, torch decomposes these first
            register_fast_op_impl(op)(_with_symbols(op))
    register_op_impl(_GATHERED_STATS)(_gathered_stats)


def keep_effects() -> None:
    """Makes graphs keep calls that act beyond their results, such as prints."""
    for row in device.operators():
        if row.has_effect:
            torch.fx.node.has_side_effect(overload(row.name))


def overload(name: str) -> Any:
    """Returns the operator "npu::name" or "npu::name.out"."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def _under_mode(op: Any) -> Callable[..., Any]:
    def call(mode: Any, _: Any, *args: Any, **kwargs: Any) -> Any:
        # Torch function modes would see the operator and run it without the kernel's key, so they are off.
        with mode, torch._C.DisableTorchFunction():
            return op._op_dk(torch._C.DispatchKey.Meta, *args, **kwargs)

    return call


def _as_on_npu(op: Any) -> Callable[..., Any]:
    def call(mode: Any, _: Any, *args: Any, **kwargs: Any) -> Any:
        if not npu_kernels.is_made_of_others(op, args):
            return NotImplemented
        with mode, torch._C.DisableTorchFunction():
            return npu_kernels.call(op, *args, **kwargs)

    return call


def _gathered_stats(
    mode: Any, op: Any, x: Any, mean: Any, invstd: Any, running_mean: Any, running_var: Any, *rest: Any
) -> Any:
    """Runs the kernel of npu without the running statistics, which it would write."""
    if x.device.type != "npu":
        return NotImplemented
    with mode, torch._C.DisableTorchFunction():
        return npu_kernels.call(op, x, mean, invstd, None, None, *rest)


def _as_on_cpu(of_torch: Callable[..., Any] | None) -> Callable[..., Any]:
    """Returns an implementation for fake tensors that computes results on npu as on cpu. ``of_torch`` is torch's own
    one, if it has one, and computes all others."""

    def call(mode: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        devices = {leaf.device for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        npu = next((one for one in devices if one.type == "npu"), None)
        if npu is None:
            return NotImplemented if of_torch is None else of_torch(mode, op, *args, **kwargs)
        with mode, torch._C.DisableTorchFunction():
            args, kwargs = pytree.tree_map_only(torch.Tensor, lambda x: _empty_like(x, "cpu"), (args, kwargs))
            return pytree.tree_map_only(torch.Tensor, lambda x: _empty_like(x, npu), op(*args, **kwargs))

    return call


def _empty_like(tensor: torch.Tensor, device: Any) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)


def _with_symbols(op: Any) -> Callable[..., Any]:
    on_npu = _as_on_npu(op)

    def call(mode: Any, *args: Any, **kwargs: Any) -> Any:
        result = on_npu(mode, op, *args, **kwargs)
        if result is not NotImplemented:
            return result
        with mode:
            return decomposition_table[op](*args, **kwargs)

    return call


def find(name: str, namespaces: Sequence[str] = NAMESPACES) -> Any:
    """Returns the operator ``name`` of the first of ``namespaces`` that has it, or None. Its ``__doc__`` holds the
    schemas and the definitions of its overloads."""
    namespace = next((space for space in namespaces if name in names(space)), None)
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
    state = f"\n\n{_NO_KERNEL.format(name=row.name)}" if row.computation == device.Computation.SIZES else ""
    return f"{overload._schema}\n\n{row.definition}{state}"
