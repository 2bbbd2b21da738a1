# SPDX-License-Identifier: Apache-2.0
"""Which calls of operators are composed of other operators, and their kernels, which say of which."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from npugraph import host_device, npu_kernels
from npugraph.fx.schema import arguments_by_name, is_composite, is_foreach, is_of_ascend, is_of_user
from npugraph.python_operators import kernels


def is_composed(op: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, also_writers: bool = False) -> bool:
    """Whether a call of ``op``, the target of a node, becomes the operators that the kernel of ``op`` calls.

    A call stays whole if it reads values of its arguments, or, unless ``also_writers``, writes some elements of an
    argument and not all of them.
    """
    if getattr(op, "namespace", None) == "npu_define":  # these are composed of torch's collectives
        return True
    if op in npu_kernels.OPERATORS:
        return npu_kernels.is_made_of_others(op, fx.map_arg(args, lambda node: node.meta.get("val")))
    if is_foreach(op) or (is_of_user(op) and is_composite(op)):
        return True
    if not is_of_ascend(op) or (row := _composed().get(op.name())) is None:
        return False
    if op._schema.is_mutable and not (row.overwrites or also_writers):
        return False
    given = arguments_by_name(op, args, kwargs)
    return all(given.get(name) is None for name in row.whole_with)


@functools.cache
def _composed() -> dict[str, Any]:
    return {row.name: row for row in host_device.operators() if row.computation.name == "PARTS"}


def run_kernel(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls the kernel of a composed operator, so that the operators that it calls can be traced."""
    if kernel := kernels.get(op.name()):
        return kernel(*args, **kwargs)
    with torch._C.DisableTorchFunction():  # a mode would get the operator without the key of its kernel
        if op in npu_kernels.OPERATORS:
            return npu_kernels.call(op, *args, **kwargs)
        if is_of_user(op):
            return op.decompose(*args, **kwargs)
        key = "CompositeExplicitAutograd" if is_foreach(op) else "CPU"
        return op._op_dk(getattr(torch._C.DispatchKey, key), *args, **kwargs)
