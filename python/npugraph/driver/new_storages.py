# SPDX-License-Identifier: Apache-2.0
"""Inputs that a graph gives the memory of another tensor, as ``x.data = y`` does.

    set_ = aten.set_.source_Tensor(x, mul); return (add,)    ->    return (add, mul), and the host calls set_(x, mul)

A task writes memory of an input, and cannot give the caller's tensor other memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

# torch 2.14 has an operator of its own for this.
_GIVE = (
    torch.ops.aten.shallow_copy_data_.default
    if hasattr(torch.ops.aten, "shallow_copy_data_")
    else torch.ops.aten.set_.source_Tensor
)


def take(gm: fx.GraphModule) -> tuple[int, ...]:
    """Takes the calls that give inputs other memory out of a functional graph. Returns the places of these inputs. The
    tensors whose memory they get are the last outputs of the graph, in this order."""
    places = {node: place for place, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    calls = [node for node in gm.graph.find_nodes(op="call_function", target=_GIVE) if node.args[0] in places]
    if not calls:
        return ()
    output = gm.graph.output_node()
    output.args = ((*output.args[0], *(call.args[1] for call in calls)),)
    inputs = [call.args[0] for call in calls]
    for call, given in zip(calls, inputs, strict=True):
        call.replace_all_uses_with(given)
        gm.graph.erase_node(call)
    gm.recompile()
    return tuple(places[node] for node in inputs)


def giving(run: Callable[..., Any], places: tuple[int, ...]) -> Callable[..., Any]:
    """Returns a function of a list of inputs. It calls ``run``, and gives the inputs at ``places`` the memory of the
    last results, which it does not return."""

    def call(args: list[Any]) -> list[Any]:
        inputs = [args[place] for place in places]
        results = list(run(args))
        with torch.no_grad():
            for given, value in zip(inputs, results[-len(places) :], strict=True):
                _GIVE(given, value)
        return results[: -len(places)]

    return call
