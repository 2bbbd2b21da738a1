# SPDX-License-Identifier: Apache-2.0
"""The names of a cached method's arguments and variables, and the error for a method that cannot be cached."""

from __future__ import annotations

import builtins
import importlib
import inspect
import types
from collections.abc import Mapping
from typing import Any


class NotCacheable(Exception):
    """A function that can be compiled, but not for other processes."""


class Variables(dict):  # type: ignore[type-arg]
    """The global names in Dynamo's sources: modules by the names that Dynamo gave them, builtins, and for all other
    names the variables of the function's module."""

    def __init__(self, function: Any, modules: Mapping[str, str]) -> None:
        super().__init__((name, importlib.import_module(module)) for name, module in modules.items())
        self._globals = function.__globals__

    def __missing__(self, name: str) -> Any:
        return vars(builtins) if name.startswith("__builtins_dict__") else self._globals[name]


def arguments_of(method: types.MethodType, signature: inspect.Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    """Returns what Dynamo calls L: the arguments by name, and the variables that the function closes over. Raises
    ``TypeError`` as a call does."""
    bound = signature.bind(method.__self__, *args, **kwargs)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    function = method.__func__
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        arguments[name] = cell.cell_contents
    return arguments


def source_of_owner(method: types.MethodType) -> str:
    """Returns the source of the module among the arguments of its method."""
    first = next(iter(inspect.signature(method.__func__, follow_wrapped=False).parameters.values()))
    return f"L[{first.name!r}]" + "[0]" * (first.kind is inspect.Parameter.VAR_POSITIONAL)


def name_of(method: Any) -> str:
    return f"{type(method.__self__).__name__}.{method.__func__.__name__}"
