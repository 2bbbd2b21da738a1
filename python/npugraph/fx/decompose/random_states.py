# SPDX-License-Identifier: Apache-2.0
"""Operators that checkpoints repeat with the random numbers of the first time -> these operators, between operators on
the states of generators.

    s, r = run_and_save_rng_state(op, x)    ->    s = random_state("cpu")
                                                  r = op(x)

    r = run_with_rng_state(s, op, x)        ->    now = random_state("cpu")
                                                  set_random_state(s, "cpu")
                                                  r = op(x)
                                                  set_random_state(now, "cpu")
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import fx
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

from npugraph.fx.nodes import add_call
from npugraph.fx.schema import may_draw

_REPEATED = (run_and_save_rng_state, run_with_rng_state)


def has_repeated_draws(graph: fx.Graph) -> bool:
    return any(node.target in _REPEATED for node in graph.nodes)


def unwrap_repeated_draws(graph: fx.Graph) -> None:
    """Rewrites the graph in place. To be called in the fake tensor mode of its values."""
    for node in list(graph.nodes):
        if node.target in _REPEATED:
            with graph.inserting_before(node):
                _unwrap(graph, node)


def _unwrap(graph: fx.Graph, node: fx.Node) -> None:
    saves = node.target is run_and_save_rng_state
    state = None if saves else node.args[0]
    operator, *args = node.args if saves else node.args[1:]
    like = max((node, *node.users), key=lambda one: len(one.meta))  # torch gives wrappers no origin
    device = _device(args, node.kwargs)
    draws = not isinstance(operator, torch._ops.OpOverload) or may_draw(operator, args, node.kwargs)
    if saves:
        state = _read(graph, like, device) if draws else _nothing(graph, like, device)
    elif state.op == "placeholder":
        state.meta["val"] = _new_state(device)  # torch gives all states one symbol as their size
    now = None
    if draws and not saves:
        now = _read(graph, like, device)
        _set(graph, like, state, device)
    result = add_call(graph, like, operator, *args, **node.kwargs)
    if now is not None:
        _set(graph, like, now, device)
    if saves:
        for item in list(node.users):
            item.replace_all_uses_with(state if item.args[1] == 0 else result)
            graph.erase_node(item)
    else:
        node.replace_all_uses_with(result)
    graph.erase_node(node)


def _device(args: Any, kwargs: Any) -> str:
    """The device on whose generator an operator draws."""
    if kwargs.get("device") is not None:
        return str(kwargs["device"])
    nodes: list[fx.Node] = []
    fx.map_arg((args, kwargs), nodes.append)
    values = (node.meta.get("val") for node in nodes)
    return next((str(value.device) for value in values if isinstance(value, torch.Tensor)), "cpu")


def _read(graph: fx.Graph, like: fx.Node, device: str) -> fx.Node:
    return add_call(graph, like, _operators()[0], device)


def _set(graph: fx.Graph, like: fx.Node, state: fx.Node, device: str) -> None:
    add_call(graph, like, _operators()[1], state, device)


def _nothing(graph: fx.Graph, like: fx.Node, device: str) -> fx.Node:
    """Stands for the state where nothing is drawn. It has the size of one, because torch gives all states of a backward
    graph one symbol as their size."""
    size = _new_state(device).numel()
    return add_call(graph, like, torch.ops.aten.full.default, [size], 0, dtype=torch.uint8, device=torch.device("cpu"))


def _new_state(device: str) -> torch.Tensor:
    generators = torch.random if device == "cpu" else torch.get_device_module(device)
    place = () if device == "cpu" else (device,)
    return torch.empty(generators.get_rng_state(*place).numel(), dtype=torch.uint8)


@functools.cache
def _operators() -> tuple[Any, Any]:
    """The operators that read and set states. They are no dead code, and fake tensors know them."""
    found = torch.ops.npugraph.random_state.default, torch.ops.npugraph.set_random_state.default
    for operator in found:
        fx.node.has_side_effect(operator)
    torch.library.register_fake("npugraph::random_state", _new_state)
    torch.library.register_fake("npugraph::set_random_state", lambda state, device: None)
    return found
