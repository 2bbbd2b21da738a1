# SPDX-License-Identifier: Apache-2.0
"""Public names of torch_npu and their signatures against torch_npu_names.txt: Ascend's scripts find what they call."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

_OPEN = ", ..."  # ends a list of parameters that goes on
_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_RECEIVERS = ("self", "cls")

# Name of a parameter, its kind, and its default as source text, or None.
Parameters = list[tuple[str, str, str | None]]


def _facts() -> dict[str, list[str]]:
    """Returns the entries of the table by module."""
    table: dict[str, list[str]] = {}
    entries: list[str] = []
    for line in Path(__file__).with_name("torch_npu_names.txt").read_text().splitlines():
        if line.startswith(" "):
            entries.append(line.strip())
        elif not line.startswith("#"):
            entries = table[line] = []
    return table


def _parameters(text: str) -> Parameters:
    arguments = ast.parse(f"def f({text}): ...").body[0].args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    rows = [(one, "positional", default) for one, default in zip(plain, defaults, strict=True)]
    rows += [(one, "*", None) for one in filter(None, [arguments.vararg])]
    rows += [
        (one, "keyword", default) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    rows += [(one, "**", None) for one in filter(None, [arguments.kwarg])]
    return [
        (one.arg, kind, None if default is None else ast.unparse(default))
        for one, kind, default in rows
        if one.arg not in _RECEIVERS
    ]


def _differences(wanted: Parameters, found: list[inspect.Parameter], is_open: bool) -> Iterator[str]:
    if is_open:
        found = found[: len(wanted)]
    names = [one.name for one in found]
    if names != [name for name, _, _ in wanted]:
        yield f"has the parameters {names}"
        return
    for (name, kind, default), one in zip(wanted, found, strict=True):
        if _KINDS[one.kind] != kind:
            yield f"{name} is {_KINDS[one.kind]}"
        if (default is None) != (one.default is inspect.Parameter.empty):
            yield f"{name} has {'a' if default is None else 'no'} default"
        elif default is not None and not _is_value(default, one.default):
            yield f"{name} is {one.default!r} by default"


def _is_value(text: str, value: Any) -> bool:
    try:
        return bool(eval(text, {"torch": torch}) == value)
    except NameError:  # the table does not tell the value of this constant
        return True


def _found(module: Any, name: str) -> Any:
    """Returns the object that ``name``, "function" or "Class.method", stands for. Raises AttributeError."""
    *owner, last = name.split(".")
    if not owner:
        return getattr(module, last)
    found = inspect.getattr_static(getattr(module, owner[0]), last)
    return found.__func__ if isinstance(found, staticmethod | classmethod) else found


def _problems(module: Any, entry: str) -> Iterator[str]:
    name, _, rest = entry.partition("(")
    try:
        found = _found(module, name)
    except AttributeError:
        yield "is missing"
        return
    if not rest or not callable(found):  # properties look like methods in the table
        return
    text = rest.removesuffix(")")
    parameters = [one for one in inspect.signature(found).parameters.values() if one.name not in _RECEIVERS]
    yield from _differences(_parameters(text.removesuffix(_OPEN)), parameters, text.endswith(_OPEN))


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


@pytest.mark.parametrize("name", _facts())
def test_names_and_signatures(name: str):
    module = _module(name)
    wrong = [f"{name}.{entry}: {problem}" for entry in _facts()[name] for problem in _problems(module, entry)]
    assert not wrong, "\n".join(wrong)
