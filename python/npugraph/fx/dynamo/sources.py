# SPDX-License-Identifier: Apache-2.0
"""Parses Dynamo's sources, the texts that say where it found the inputs of a graph, into paths from arguments."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
from collections.abc import Iterable, Sequence
from typing import Any

_BY_POSITION = "argument_"
_OF_MODULES = ("_modules", "_parameters", "_buffers")
_QUERIES = ("size", "stride")


@dataclasses.dataclass(frozen=True)
class Path:
    """A source such as ``L['cache'].layers[0].keys``: the argument, and the steps from it. A step is a key with True
    for an attribute and False for an item. ``query`` is set for a number that belongs to the tensor at the end, such as
    ``("size", 0)``."""

    argument: str
    steps: tuple[tuple[bool, str | int], ...]
    query: tuple[str, int] | None = None

    def find(self, value: Any) -> Any:
        """Follows the steps from ``value``. If a step does not exist, Python's own exception is raised."""
        for is_attribute, key in self.steps:
            value = getattr(value, str(key)) if is_attribute else value[key]
        return value

    def __str__(self) -> str:
        """The steps as users write them, without the dicts in which modules hold their members: ``layers.0.weight``."""
        steps = [key for is_attribute, key in self.steps if not (is_attribute and key in _OF_MODULES)]
        return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in steps).removeprefix(".")


def model_among(paths: Iterable[Path]) -> str | None:
    """The argument that is the model: ``self``, else the only argument whose paths lead into a module. None if there
    are several."""
    inside = [path for path in paths if path.steps]
    if any(path.argument == "self" for path in inside):
        return "self"
    modules = {path.argument for path in inside if path.steps[0][1] in _OF_MODULES}
    return modules.pop() if len(modules) == 1 else None


def named_by(model: Any, arguments: Sequence[str]) -> list[str]:
    """``arguments``, with ``argument_0`` and the like replaced by the parameter names of ``model.forward``."""
    if not any(argument.startswith(_BY_POSITION) for argument in arguments):
        return list(arguments)
    parameters = inspect.signature(model.forward).parameters.values()
    known = {f"{_BY_POSITION}{i}": one.name for i, one in enumerate(parameters) if _has_one_value(one)}
    return [known.get(argument, argument) for argument in arguments]


def _has_one_value(parameter: inspect.Parameter) -> bool:
    return parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@functools.lru_cache(maxsize=8192)
def parse(source: str) -> Path:
    """Parses a source. Raises ``ValueError`` for a source of another kind (a call, a global variable)."""
    try:
        return _parse(ast.parse(source, mode="eval").body)
    except (SyntaxError, ValueError):
        raise ValueError(f"{source} is no path from an argument") from None


def _parse(node: ast.expr) -> Path:
    query = _query(node)
    if query is not None:
        node, name, dim = query
        path = _parse(node)
        return dataclasses.replace(path, query=(name, dim))
    steps: list[tuple[bool, str | int]] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            steps.append((True, node.attr))
            node = node.value
        elif isinstance(node, ast.Subscript):
            owner = _owner_of_class(node.value)
            steps.append((owner is not None, _key(node.slice)))
            node = node.value if owner is None else owner
        else:
            raise ValueError
    if node.id != "L" or not steps:
        raise ValueError
    steps.reverse()
    argument = steps.pop(0)[1]
    # A wrapper around a module's forward takes the arguments as a tuple and a dict.
    if argument in ("args", "kwargs") and steps and not steps[0][0]:
        key = steps.pop(0)[1]
        argument = f"{_BY_POSITION}{key}" if isinstance(key, int) else key
    return Path(str(argument), tuple(steps))


def _owner_of_class(node: ast.expr) -> ast.expr | None:
    """``dict(type(x).__dict__)`` -> x. Dynamo finds attributes in this dict that ``x`` has from its class."""
    of_class = _only_argument(node, "dict")
    if isinstance(of_class, ast.Attribute) and of_class.attr == "__dict__":
        return _only_argument(of_class.value, "type")
    return None


def _only_argument(node: ast.expr, function: str) -> ast.expr | None:
    """``function(x)`` -> x."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function
    return node.args[0] if is_call and len(node.args) == 1 else None


def _query(node: ast.expr) -> tuple[ast.expr, str, int] | None:
    """``x.size()[0]`` -> x, "size", 0."""
    call = node.value if isinstance(node, ast.Subscript) else node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.args:
        return None
    if call.func.attr not in _QUERIES and call.func.attr != "storage_offset":
        raise ValueError
    return call.func.value, call.func.attr, int(_key(node.slice)) if isinstance(node, ast.Subscript) else 0


def _key(node: ast.expr) -> str | int:
    value = node.value if isinstance(node, ast.Constant) else ast.literal_eval(node)
    if not isinstance(value, (str, int)):
        raise ValueError
    return value
