# SPDX-License-Identifier: Apache-2.0
"""Operators that are made of ATen operators -> these, so that the compiler sees and fuses them.

    y, rstd = npu.npu_rms_norm(x, gamma)    ->    pow, mean, add, rsqrt, mul, mul

What they are made of is said once, by their kernel (src/torch/npu_ops), which is traced here. Operators that read
values of their arguments, or write arguments, stay whole. The same is done with calls of ATen operators that only npu
takes (``npu_kernels``).
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import fx

from npugraph import _C, npu_kernels
from npugraph.fx.decompose.parts import put_parts
from npugraph.fx.schema import is_of_ascend
from npugraph.python_operators import kernels


def expand(gm: fx.GraphModule) -> fx.GraphModule:
    """Puts the parts of composed operators, and of flex_attention, in their place. In place."""
    if any(map(_is_flex_attention, gm.graph.nodes)):
        from npugraph.fx.decompose.flex_attention import expand_flex_attention

        expand_flex_attention(gm)
    for node in list(gm.graph.nodes):
        if _is_composed(node):
            put_parts(gm, node, functools.partial(_run_kernel, node.target))
    return gm


def _is_flex_attention(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.HigherOrderOperator) and target.name().startswith("flex_attention")


def _is_composed(node: fx.Node) -> bool:
    target = node.target
    if getattr(target, "namespace", None) == "npu_define":  # made of torch's collectives
        return True
    if target in npu_kernels.OPERATORS:
        return npu_kernels.is_made_of_others(target, fx.map_arg(node.args, lambda n: n.meta.get("val")))
    if not is_of_ascend(target):
        return False
    whole_with = _composed().get(target.name())
    if whole_with is None or target._schema.is_mutable:
        return False
    names = (argument.name for argument in target._schema.arguments)
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    return all(given.get(name) is None for name in whole_with)


@functools.cache
def _composed() -> dict[str, list[str]]:
    """Composed operators, and the arguments with which calls of these stay whole."""
    return {row.name: row.whole_with for row in _C.device.operators() if row.is_composed}


def _run_kernel(op: Any, *args: Any, **kwargs: Any) -> Any:
    if kernel := kernels.get(op.name()):
        return kernel(*args, **kwargs)
    with torch._C.DisableTorchFunction():  # modes for functions are given the operator, without the kernel's key
        if op in npu_kernels.OPERATORS:
            return npu_kernels.call(op, *args, **kwargs)
        return op._op_dk(torch._C.DispatchKey.CPU, *args, **kwargs)
