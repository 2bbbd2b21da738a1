# SPDX-License-Identifier: Apache-2.0
"""FX graphs as data for JSON: calls of operators, and of compiled pieces, on named values. Reading it can only call
operators, the functions of ``_FUNCTIONS`` and the pieces."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
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
Read = Callable[[Values], Any]


def function_of(data: Mapping[str, Any], pieces: Mapping[str, Run]) -> Run:
    """Returns the graph that ``described`` returned as a function of its inputs. ``pieces`` has the compiled pieces by
    name. Raises ``ValueError`` for an operator that this process lacks."""
    inputs, output = data["inputs"], _reader(data["output"])
    steps = [
        (
            step["name"],
            _target(step, pieces),
            _reader(step["args"]),
            {name: _reader(word) for name, word in step["kwargs"].items()},
            dying,
        )
        for step, dying in zip(data["steps"], _dead_after(data), strict=True)
    ]

    def run(*args: Any) -> Any:
        values = dict(zip(inputs, args, strict=True))
        for name, target, given, named, dying in steps:
            values[name] = target(*given(values), **{key: read(values) for key, read in named.items()})
            for value in dying:
                del values[value]
        return output(values)

    return run


def _dead_after(data: Mapping[str, Any]) -> list[list[str]]:
    """Returns the values that no later step reads, of each step, so that their memory serves later ones."""
    last: dict[str, int] = {}
    for i, step in enumerate(data["steps"]):
        last |= dict.fromkeys((step["name"], *_values_in(step["args"]), *_values_in(list(step["kwargs"].values()))), i)
    returned = set(_values_in(data["output"]))
    dead: list[list[str]] = [[] for _ in data["steps"]]
    for value, i in last.items():
        if value not in returned:
            dead[i].append(value)
    return dead


def _values_in(word: Any) -> Iterator[str]:
    if isinstance(word, list):
        for item in word:
            yield from _values_in(item)
    elif isinstance(word, dict):
        ((kind, content),) = word.items()
        if kind == "value":
            yield content
        else:
            yield from _values_in(content)


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


def _reader(word: Any) -> Read:
    """Returns a function that reads ``word``, given the values of the graph."""
    if isinstance(word, list):
        items = [_reader(item) for item in word]
        return lambda values: [read(values) for read in items]
    if isinstance(word, dict):
        ((kind, content),) = word.items()
        return _READERS[kind](content)
    return _constant(word)


def _reader_of_all(kind: Callable[[list[Any]], Any], words: list[Any]) -> Read:
    items = _reader(words)
    return lambda values: kind(items(values))


def _constant(value: Any) -> Read:
    return lambda values: value


_READERS: dict[str, Callable[[Any], Read]] = {
    "value": operator.itemgetter,
    "tuple": lambda words: _reader_of_all(tuple, words),
    "slice": lambda words: _reader_of_all(lambda bounds: slice(*bounds), words),
    "torch": lambda name: _constant(getattr(torch, name)),
    "device": lambda name: _constant(torch.device(name)),
}
