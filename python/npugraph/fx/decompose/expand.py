# SPDX-License-Identifier: Apache-2.0
"""Operators that are composed of ATen operators -> these ATen operators, so that the compiler sees and fuses them.

    y, rstd = npu.npu_rms_norm(x, gamma)    ->    pow, mean, add, rsqrt, mul, mul

Only the kernel of an operator (src/device/npu_ops) says what it is composed of, and it is traced here. Operators that
read values of their arguments, or write arguments, stay whole; ``functional_forms`` expands the functional forms of
the latter. Calls of ATen operators that only npu accepts (``npu_kernels``) are expanded in the same way. Operators on
lists of tensors (``_foreach_*``), which optimizers call, become an operator for each tensor. Some of ATen's own
operators, most of them gradients, become operators that are faster together. Operators of users that have a kernel
for CompositeImplicitAutograd beside kernels of their own are decomposed here, because AOTAutograd leaves them whole.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from npugraph.fx.corrections import correct_values
from npugraph.fx.decompose import (
    attention_gradients,
    convolution_gradients,
    embedding_gradients,
    layer_norm_gradients,
    random_numbers,
)
from npugraph.fx.decompose.composed import is_composed, run_kernel
from npugraph.fx.decompose.parts import put_parts
from npugraph.fx.schema import is_mutable

# Operators of ATen, each with a function that returns the parts of a node, or None if the node stays whole.
_PARTS = {
    attention_gradients.OPERATOR: attention_gradients.parts_of,
    convolution_gradients.OPERATOR: convolution_gradients.parts_of,
    layer_norm_gradients.OPERATOR: layer_norm_gradients.parts_of,
    random_numbers.OPERATOR: random_numbers.parts_of,
}


def expand(gm: fx.GraphModule) -> fx.GraphModule:
    """Replaces composed operators and flex_attention by their parts, in place."""
    if any(map(_is_flex_attention, gm.graph.nodes)):
        from npugraph.fx.decompose.flex_attention import expand_flex_attention

        expand_flex_attention(gm)
    if any(node.target in _PARTS for node in gm.graph.nodes):
        correct_values(gm.graph)  # statistics of normalisations get the types that they have, which parts go by
    embedding_gradients.add_rows_in_sums(gm)
    nodes = deque(gm.graph.nodes)
    while nodes:
        node = nodes.popleft()
        if parts := _parts_of(node):
            nodes.extendleft(put_parts(gm, node, parts))  # parts may be composed, too
    return gm


def _parts_of(node: fx.Node) -> Callable[..., Any] | None:
    """Returns the function whose operators a node is composed of; None if it stays whole."""
    if node.target in _PARTS:
        return _PARTS[node.target](node)
    return functools.partial(run_kernel, node.target) if _is_composed(node) else None


def _is_flex_attention(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.HigherOrderOperator) and target.name().startswith("flex_attention")


def _is_composed(node: fx.Node) -> bool:
    return not is_mutable(node.target) and is_composed(node.target, node.args, node.kwargs)
