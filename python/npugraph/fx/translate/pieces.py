# SPDX-License-Identifier: Apache-2.0
"""Runs a graph in pieces, and calls certain operators between them.

These are operators that others have written, and operators that updates of a captured graph issue again. While a graph
of npu is captured, they launch work of their own, mark task groups, wait for events, or become task groups. So they
must be called, and their effects must stand at the right place in the captured graph. During a capture the graph
therefore runs as pieces, each of which is compiled separately.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.passes.split_module import split_module

from npugraph.fx.schema import BUILT_IN
from npugraph.fx.streams.stream_marks import records_for_program
from npugraph.fx.triton_kernels import NAMESPACE

# Names of operators whose calls in a captured graph are issued again with other arguments. They are called, too.
issued_again: set[str] = set()

# Namespaces of operators that a captured graph has as tasks.
_OF_TASKS = BUILT_IN | {NAMESPACE}

# Compiles one piece to a function of its inputs that returns its outputs in a tuple. None: the piece runs as it is.
Compile = Callable[[fx.GraphModule, str], Callable[..., Any] | None]


def is_apart(node: fx.Node) -> bool:
    """Whether a node calls an operator that stands between pieces."""
    target = node.target
    if records_for_program(node):
        return True
    if not isinstance(target, torch._ops.OpOverload) or not _is_on_npu(node):
        return False
    return target.namespace not in _OF_TASKS or target.name() in issued_again


def _is_on_npu(node: fx.Node) -> bool:
    values = (operand.meta.get("val") for operand in node.all_input_nodes)
    return any(isinstance(value, torch.Tensor) and value.device.type == "npu" for value in values)


class Pieces:
    """A graph that runs in pieces. They are made at the first call."""

    def __init__(self, gm: fx.GraphModule, compile_piece: Compile) -> None:
        self._gm = gm
        self._compile = compile_piece
        self._split: fx.GraphModule | None = None
        self._run: Callable[..., Any] | None = None

    def __call__(self, *inputs: Any) -> Any:
        if self._run is None:
            self._run = torch._dynamo.disable(self.split().forward)
        with torch.no_grad():
            return self._run(*inputs)

    def split(self) -> fx.GraphModule:
        """The graph that calls the pieces. Pieces that were compiled are of type ``CompiledPiece``."""
        if self._split is None:
            self._split = self._made()
        return self._split

    def _made(self) -> fx.GraphModule:
        places = _places(self._gm.graph)
        for node in self._gm.graph.nodes:
            node.meta.setdefault("example_value", node.meta.get("val"))  # split_module looks for sizes there
        split = split_module(self._gm, None, places.__getitem__, keep_original_order=True, keep_original_node_name=True)
        for name, piece in split.named_children():
            if any(map(is_apart, piece.graph.nodes)):
                continue
            is_single = isinstance(piece.graph.output_node().args[0], fx.Node)
            run = self._compile(piece, name)
            if run is not None:
                setattr(split, name, CompiledPiece(run, is_single))
        return split


class CompiledPiece(torch.nn.Module):
    """A compiled piece. With ``is_single`` it returns its output itself and no tuple."""

    def __init__(self, run: Callable[..., Any], is_single: bool) -> None:
        super().__init__()
        self.run = run
        self.is_single = is_single

    def forward(self, *inputs: Any) -> Any:
        results = self.run(*inputs)
        return results[0] if self.is_single and isinstance(results, (list, tuple)) else results


def _places(graph: fx.Graph) -> dict[fx.Node, int]:
    """The number of each node's piece. An operator between pieces is a piece of its own."""
    places, number = {}, 0
    for node in graph.nodes:
        apart = is_apart(node)
        number += apart
        places[node] = number
        number += apart
    return places
