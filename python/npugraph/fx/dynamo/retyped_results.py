# SPDX-License-Identifier: Apache-2.0
"""Results that view an input as another type: ``x.view(torch.int16)[: n]``. Where sizes change, AOTAutograd makes such
a view of the input again, from the sizes, strides and offset of the result, which count elements of the other type."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from npugraph.fx.values import is_strided


def retyped_result(graph: fx.Graph) -> fx.Node | None:
    """The first result with symbolic sizes that views an input as another type, or None. Real parts of complex inputs
    are no such results: AOTAutograd knows them."""
    inputs = [value for node in graph.find_nodes(op="placeholder") if is_strided(value := _value(node))]
    types = {value.untyped_storage()._cdata: value.dtype for value in inputs}
    for node in graph.output_node().all_input_nodes:
        value = _value(node)
        if is_strided(value) and _has_symbols(value):
            of_input = types.get(value.untyped_storage()._cdata, value.dtype)
            if value.dtype not in (of_input, of_input.to_real()):
                return node
    return None


def _value(node: fx.Node) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))


def _has_symbols(value: torch.Tensor) -> bool:
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    return any(isinstance(number, torch.SymInt) for number in numbers)
