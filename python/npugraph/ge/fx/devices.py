# SPDX-License-Identifier: Apache-2.0
"""Devices of an FX graph: the one that its graph of GE is for, and calls that such a graph cannot have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from npugraph.ge.fx.reads import call_of

aten = torch.ops.aten


def device_of(graph: fx.Graph) -> torch.device:
    """The device of the first tensor on npu, inputs before results; the host if there is none."""
    tensors = (tensor for node in graph.nodes for tensor in _tensors_of(node))
    return next((tensor.device for tensor in tensors if tensor.device.type == "npu"), torch.device("cpu"))


class Placement:
    """Which tensors a graph of GE on ``device`` can have. All of its results are there. It reads scalars of the host
    too, and computes such as it reads itself, but none that the FX graph ``graph`` returns or writes."""

    def __init__(self, graph: fx.Graph, device: torch.device) -> None:
        self._device = device
        self._kept = {call_of(output) for output in graph.output_node().all_input_nodes}

    def is_input(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor can be an input. Of one of the host with dimensions, only the sizes are read."""
        return tensor.device == self._device or tensor.device.type == "cpu"

    def refusal(self, node: fx.Node) -> str:
        """Why the graph cannot have the call of a node, "" if it can."""
        for tensor in _tensors_of(node):
            is_kept = node in self._kept or node.target is aten.copy_.default
            if tensor.device != self._device and (is_kept or not _is_scalar_of_host(tensor)):
                return f"it makes a tensor on {tensor.device} in a graph for {self._device}"
        for operand in node.all_input_nodes:
            for tensor in _tensors_of(operand):
                if tensor.device != self._device and not _is_scalar_of_host(tensor):
                    return f"it reads a tensor on {tensor.device} in a graph for {self._device}"
        return ""


def _is_scalar_of_host(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dim() == 0


def _tensors_of(node: fx.Node) -> Iterator[Any]:
    return (leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor))
