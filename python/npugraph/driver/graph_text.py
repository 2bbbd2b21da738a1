# SPDX-License-Identifier: Apache-2.0
"""FX graphs as data for JSON: calls of operators, and of compiled pieces, on named values. Reading it can only call
operators, the functions of ``_FUNCTIONS`` and the pieces."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx


class NotStorable(ValueError):
    """A compiled graph cannot be stored. The message says why."""


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"operator.{f.__name__}": f
    for f in (
        *(operator.getitem, operator.add, operator.sub, operator.mul, operator.floordiv, operator.truediv),
        *(operator.mod, operator.neg, operator.pow, operator.eq, operator.ne, operator.lt, operator.le),
        *(operator.gt, operator.ge),
    )
} | {f"torch.{f.__name__}": f for f in (torch.sym_max, torch.sym_min, torch.sym_float, torch.sym_int, torch.sym_not)}
_NAMES = {function: name for name, function in _FUNCTIONS.items()}
_CONSTANTS = (torch.dtype, torch.layout, torch.memory_format)
_PLAIN = (type(None), bool, int, float, str)

# Returns the name of the compiled piece in the place of a module of the graph, or None if the module runs as it is.
PieceName = Callable[[torch.nn.Module], str | None]


def described(gm: fx.GraphModule, piece_name: PieceName) -> dict[str, Any]:
    """Returns a graph as data. Raises ``NotStorable`` for what the data has no words for."""
    steps = [_step(gm, node, piece_name) for node in gm.graph.nodes if node.op not in ("placeholder", "output")]
    return {
        "inputs": [node.name for node in gm.graph.find_nodes(op="placeholder")],
        "steps": steps,
        "output": _word(gm.graph.output_node().args[0]),
    }


def _step(gm: fx.GraphModule, node: fx.Node, piece_name: PieceName) -> dict[str, Any]:
    step = {"name": node.name, "args": _word(list(node.args)), "kwargs": {k: _word(v) for k, v in node.kwargs.items()}}
    if node.op == "call_module":
        module = gm.get_submodule(node.target)
        name = piece_name(module)
        if name is not None:
            return step | {"piece": name}
        if isinstance(module, fx.GraphModule):
            return step | {"graph": described(module, piece_name)}
    elif node.op == "call_function":
        if isinstance(node.target, torch._ops.OpOverload):
            return step | {"operator": str(node.target)}
        if node.target in _NAMES:
            return step | {"function": _NAMES[node.target]}
    raise NotStorable(f"{node.name} calls {node.target}, which is no operator")


def _word(value: Any) -> Any:
    if isinstance(value, fx.Node):
        return {"value": value.name}
    if type(value) in _PLAIN:
        return value
    if isinstance(value, tuple):
        return {"tuple": [_word(item) for item in value]}
    if isinstance(value, list):
        return [_word(item) for item in value]
    if isinstance(value, slice):
        return {"slice": [_word(item) for item in (value.start, value.stop, value.step)]}
    if isinstance(value, _CONSTANTS):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    raise NotStorable(f"an argument of an operator is a {type(value).__name__}")


Values = dict[str, Any]
Run = Callable[..., Any]


def function_of(data: Mapping[str, Any], pieces: Mapping[str, Run]) -> Run:
    """Returns the graph that ``described`` returned as a function of its inputs. ``pieces`` has the compiled pieces by
    name. Raises ``ValueError`` for an operator that this process lacks."""
    steps = [(step["name"], _target(step, pieces), step["args"], step["kwargs"]) for step in data["steps"]]
    inputs, output = data["inputs"], data["output"]

    def run(*args: Any) -> Any:
        values = dict(zip(inputs, args, strict=True))
        for name, target, given, named in steps:
            values[name] = target(*_read(given, values), **{key: _read(word, values) for key, word in named.items()})
        return _read(output, values)

    return run


def _target(step: Mapping[str, Any], pieces: Mapping[str, Run]) -> Run:
    if "piece" in step:
        return pieces[step["piece"]]
    if "graph" in step:
        return function_of(step["graph"], pieces)
    return _FUNCTIONS[step["function"]] if "function" in step else _operator(step["operator"])


def _operator(name: str) -> Run:
    found: Any = torch.ops
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise ValueError(f"it calls torch.ops.{name}, which this process lacks") from None
    return found


def _read(word: Any, values: Values) -> Any:
    if isinstance(word, list):
        return [_read(item, values) for item in word]
    if not isinstance(word, dict):
        return word
    ((kind, content),) = word.items()
    return _KINDS[kind](content, values)


def _read_all(words: Sequence[Any], values: Values) -> list[Any]:
    return [_read(word, values) for word in words]


_KINDS: dict[str, Callable[[Any, Values], Any]] = {
    "value": lambda content, values: values[content],
    "tuple": lambda content, values: tuple(_read_all(content, values)),
    "slice": lambda content, values: slice(*_read_all(content, values)),
    "torch": lambda content, values: getattr(torch, content),
    "device": lambda content, values: torch.device(content),
}
