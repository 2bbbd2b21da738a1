# SPDX-License-Identifier: Apache-2.0
"""Operators that are composed of ATen operators -> these ATen operators, so that the compiler sees and fuses them.

    y, rstd = npu.npu_rms_norm(x, gamma)    ->    pow, mean, add, rsqrt, mul, mul

Only the kernel of an operator (src/torch/npu_ops) says what it is composed of, and it is traced here. Operators that
read values of their arguments, or write arguments, stay whole. Calls of ATen operators that only npu accepts
(``npu_kernels``) are expanded in the same way. Operators on lists of tensors (``_foreach_*``), which optimizers call,
become an operator for each tensor.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import fx

from npugraph import _C, npu_kernels
from npugraph.fx.decompose.attention_gradients import attention_gradients, has_few_scores
from npugraph.fx.decompose.norm_gradients import is_layer_norm_gradient, layer_norm_gradients
from npugraph.fx.decompose.parts import put_parts
from npugraph.fx.schema import arguments_by_name, is_foreach, is_of_ascend
from npugraph.python_operators import kernels


def expand(gm: fx.GraphModule) -> fx.GraphModule:
    """Replaces composed operators and flex_attention by their parts, in place."""
    if any(map(_is_flex_attention, gm.graph.nodes)):
        from npugraph.fx.decompose.flex_attention import expand_flex_attention

        expand_flex_attention(gm)
    for node in list(gm.graph.nodes):
        if has_few_scores(node):
            put_parts(gm, node, attention_gradients)
        elif is_layer_norm_gradient(node):
            put_parts(gm, node, layer_norm_gradients)
        elif _is_composed(node):
            put_parts(gm, node, functools.partial(_run_kernel, node.target))
    return gm


def _is_flex_attention(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.HigherOrderOperator) and target.name().startswith("flex_attention")


def _is_composed(node: fx.Node) -> bool:
    target = node.target
    if getattr(target, "namespace", None) == "npu_define":  # these are composed of torch's collectives
        return True
    if target in npu_kernels.OPERATORS:
        return npu_kernels.is_made_of_others(target, fx.map_arg(node.args, lambda n: n.meta.get("val")))
    if is_foreach(target):
        return not target._schema.is_mutable
    if not is_of_ascend(target):
        return False
    whole_with = _composed().get(target.name())
    if whole_with is None or target._schema.is_mutable:
        return False
    given = arguments_by_name(target, node.args, node.kwargs)
    return all(given.get(name) is None for name in whole_with)


@functools.cache
def _composed() -> dict[str, list[str]]:
    """The composed operators, each with the arguments that keep a call whole if they are given."""
    return {row.name: row.whole_with for row in _C.device.operators() if row.is_composed}


def _run_kernel(op: Any, *args: Any, **kwargs: Any) -> Any:
    if kernel := kernels.get(op.name()):
        return kernel(*args, **kwargs)
    with torch._C.DisableTorchFunction():  # a mode would get the operator without the key of its kernel
        if op in npu_kernels.OPERATORS:
            return npu_kernels.call(op, *args, **kwargs)
        key = "CompositeExplicitAutograd" if is_foreach(op) else "CPU"
        return op._op_dk(getattr(torch._C.DispatchKey, key), *args, **kwargs)
