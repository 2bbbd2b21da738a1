# SPDX-License-Identifier: Apache-2.0
"""Describes how a function makes its result from the outputs of its graph, and which objects it changes besides.

Dynamo describes this in bytecode of one version of Python. Here Python runs the bytecode once, with stand-ins for
arguments, global variables and outputs, which write down what happens to them. That gives the text of a Python function
of ``L`` (arguments by name), ``G`` (modules and global variables) and ``out`` (outputs of the graph), which each
version of Python can read (``restricted``).
"""

from __future__ import annotations

import builtins
import collections
import dataclasses
import dis
import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any, NoReturn

import torch

from npugraph.fx.dynamo import restricted
from npugraph.fx.windows import lying_so


class NotDescribed(Exception):
    """The bytecode does something that recipes cannot describe."""


def new(kind: type) -> Any:
    """Returns an object of a class, without any attribute set."""
    if not isinstance(kind, type):
        raise restricted.Refused(f"{kind!r} is no class")
    return kind.__new__(kind)


def construct(kind: type, *args: Any) -> Any:
    """Returns a named tuple, an object of a data class, or a container."""
    plain = isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, (tuple, list, dict, set)))
    if not plain:
        raise restricted.Refused(f"{kind!r} is no class of results")
    return kind(*args)


def find_class(module: str, name: str) -> type:
    """Returns the class of this qualified name in an imported module."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type):
        raise restricted.Refused(f"there is no class {module}.{name}")
    return found


def make_tuple(kind: type, items: Any) -> Any:
    """Returns a named tuple of these items."""
    if not (isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")):
        raise restricted.Refused(f"{kind!r} is no class of named tuples")
    return kind._make(items)


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Sets an attribute, as Dynamo does, unless it has the value already: each setting counts as a change."""
    attributes = getattr(owner, "__dict__", {})
    if name not in attributes or attributes[name] is not value:
        torch._dynamo.utils.object_setattr_ignore_descriptor(owner, name, value)


def dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise restricted.Refused(f"{name!r} is no dtype")
    return found


def device(text: str) -> torch.device:
    return torch.device(text)


_FUNCTIONS = (
    *(new, construct, make_tuple, find_class, dtype, device, set_attribute),
    *(setattr, collections.OrderedDict, lying_so),
)
HELPERS: dict[str, Callable[..., Any]] = {f.__name__: f for f in _FUNCTIONS}

_SIMPLE = (bool, int, float, str, bytes, complex, type(None), type(Ellipsis))
# Functions of Dynamo that measure, or that prepare inputs of the graph.
_OF_INPUTS = {"record_pregraph_bytecode_enter", "record_pregraph_bytecode_exit", "call_size", "call_stride"}
_OF_INPUTS |= {"call_storage_offset", "_as_tensor_fullprec", "to_fake_tensor"}
# Functions that Dynamo calls for their effect alone, which a recipe does not have.
_EFFECTS = {"iter_next", "setstate", "set_torch_function_mode_stack", "object_delattr_ignore_descriptor"}
_EFFECTS |= {"__setattr__", "__delattr__", "save_for_backward"}
_MUTATORS = {"clear", "append", "extend", "insert", "update", "add", "__setitem__", "__delitem__"}
_CONTAINERS = (tuple, list, dict, set, slice)
# Instructions that no stand-in notices, by the beginning of their names: also `is None`, and the code of a function,
# for which Python takes any object.
_UNNOTICED = {
    "POP_JUMP": "a decision that only a run can make",
    "STORE_GLOBAL": "a global variable that is set",
    "DELETE_GLOBAL": "a global variable that is deleted",
    "MAKE_FUNCTION": "a function that is made",
}


def describe(bytecode: CodeType, graph: str, variables: Mapping[str, Any], outputs: Sequence[str]) -> str:
    """Returns the recipe. ``graph`` is the global name of the graph's function, ``outputs`` are the texts of the values
    that it returned. Raises ``NotDescribed``, which names what a recipe cannot describe."""
    notes = _Notes(graph, variables, len(outputs))
    result = notes.text(notes.run(bytecode))
    text = notes.function(f"out = ({''.join(f'{output}, ' for output in outputs)})", result)
    try:
        restricted.function(text, HELPERS)
    except restricted.Refused as refused:
        raise NotDescribed(str(refused)) from None
    return text


@dataclasses.dataclass(frozen=True)
class _Line:
    text: str
    uses: frozenset[str]
    makes: str = ""  # a variable; the line is kept if the variable is used
    changes: str = ""  # a fresh object; the line is kept if the object is used


@dataclasses.dataclass(frozen=True)
class _Value:
    """What is known of the value that a stand-in stands for."""

    notes: _Notes
    text: str
    owner: Any = None  # the object that an attribute belongs to
    name: str = ""  # the name of an attribute or a global variable
    fresh: bool = False  # whether the recipe made it, so that changes of it matter only if it is used
    pairs: list[tuple[Any, Any]] | None = None  # the keys and values that a dictionary was made of
    constant: Any = None


class _Standin:
    """Takes the place of a value that only a call has. Each operation on it becomes a line of the recipe."""

    __slots__ = ("known",)
    __hash__ = object.__hash__

    def __init__(self, notes: _Notes, text: str, **known: Any) -> None:
        object.__setattr__(self, "known", _Value(notes, text, **known))

    def __getattribute__(self, name: str) -> Any:
        known = _known(self)
        return known.notes.make(f"{known.text}.{name}", owner=self, name=name)

    def __setattr__(self, name: str, new: Any) -> None:
        notes = _known(self).notes
        notes.do(f"setattr({notes.texts([self])}, {name!r}, {notes.text(new)})", self)

    def __getitem__(self, key: Any) -> Any:
        known = _known(self)
        return known.notes.make(f"{known.text}[{known.notes.text(key)}]")

    def __setitem__(self, key: Any, new: Any) -> None:
        known = _known(self)
        known.notes.do(f"{known.text}.__setitem__({known.notes.texts([key, new])})", self)

    def __delitem__(self, key: Any) -> None:
        known = _known(self)
        known.notes.do(f"{known.text}.__delitem__({known.notes.text(key)})", self)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if keywords:
            raise NotDescribed("a call with keywords")
        return _known(self).notes.call(self, _known(self), args)

    def __iter__(self) -> NoReturn:
        raise NotDescribed("a loop over what only a run can tell")

    def decide(self, *_: Any) -> NoReturn:
        raise NotDescribed("a decision that only a run can make")

    __bool__ = __len__ = __contains__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = decide
    __str__ = __format__ = decide


def _known(standin: _Standin) -> _Value:
    return object.__getattribute__(standin, "known")


def _is_standin(value: Any) -> bool:
    return type(value) is _Standin


class _Notes:
    """The lines of a recipe, in the order in which the bytecode did what they say."""

    def __init__(self, graph: str, variables: Mapping[str, Any], outputs: int) -> None:
        self.graph = graph
        self.variables = variables
        self.outputs = outputs
        self.lines: list[_Line] = []
        self.count = 0
        # id of a container that the bytecode made -> it, its variable, and its items when the variable was made.
        self.containers: dict[int, tuple[Any, str, list[Any]]] = {}

    def run(self, bytecode: CodeType) -> Any:
        """Runs the bytecode with stand-ins and returns its result."""
        for instruction in dis.get_instructions(bytecode):
            for beginning, what in _UNNOTICED.items():
                if instruction.opname.startswith(beginning):
                    raise NotDescribed(what)
        packed = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
        count = bytecode.co_argcount + bytecode.co_kwonlyargcount + (bytecode.co_flags & packed).bit_count()
        # Plain parameters only: *args and **kwargs are single stand-ins too.
        code = bytecode.replace(
            co_consts=tuple(map(self.constant, bytecode.co_consts)),
            co_argcount=count,
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=bytecode.co_flags & ~packed,
        )
        scope = {"__builtins__": {}} | {name: self.variable(name) for name in code.co_names}
        cells = tuple(types.CellType(self.argument(name)) for name in code.co_freevars)
        function = types.FunctionType(code, scope, code.co_name, None, cells)
        kept = [cell.cell_contents for cell in cells]
        try:
            result = torch.compiler.disable(function)(*map(self.argument, code.co_varnames[:count]))
        except NotDescribed:
            raise
        except Exception as error:  # the bytecode used a stand-in where Python wants a value
            raise NotDescribed(str(error)) from None
        if any(cell.cell_contents is not old for cell, old in zip(cells, kept, strict=True)):
            raise NotDescribed("a variable of an outer function that is set")
        for container, _, items in self.containers.values():
            if list(map(id, items)) != list(map(id, _items(container))):
                raise NotDescribed("a container that is used before it is complete")
        return result

    def argument(self, name: str) -> _Standin:
        return _Standin(self, f"L[{name!r}]")

    def variable(self, name: str) -> _Standin:
        is_builtin = name not in self.variables and hasattr(builtins, name)
        return _Standin(self, name if is_builtin else f"G[{name!r}]", name=name)

    def constant(self, value: Any) -> Any:
        if isinstance(value, types.MethodType) and isinstance(value.__self__, type):
            return _Standin(self, "a_method", owner=self.constant(value.__self__), name=value.__func__.__name__)
        return (
            value if _is_simple(value) or isinstance(value, tuple) else _Standin(self, _literal(value), constant=value)
        )

    def make(self, text: str, **known: Any) -> _Standin:
        return _Standin(self, self.assign(text), **known)

    def assign(self, text: str) -> str:
        variable = f"v{self.count}"
        self.count += 1
        self.lines.append(_Line(f"{variable} = {text}", _variables(text), makes=variable))
        return variable

    def do(self, text: str, changed: Any = None) -> None:
        of = _known(changed).text if _is_standin(changed) and _known(changed).fresh else ""
        self.lines.append(_Line(text, _variables(text), changes=of))

    def text(self, value: Any) -> str:
        if _is_standin(value):
            return _known(value).text
        if _is_simple(value):
            return repr(value)
        if id(value) not in self.containers:
            if type(value) not in _CONTAINERS:
                return _literal(value)
            items = _items(value)
            self.containers[id(value)] = value, self.assign(self.display(value)), items
        return self.containers[id(value)][1]

    def display(self, container: Any) -> str:
        if isinstance(container, slice):
            return f"slice({self.texts(_items(container))})"
        if isinstance(container, dict):
            return "{" + ", ".join(f"{self.text(key)}: {self.text(value)}" for key, value in container.items()) + "}"
        if isinstance(container, set):
            return f"set([{self.texts(container)}])"
        items = self.texts(container)
        return f"[{items}]" if isinstance(container, list) else f"({items}{',' * (len(container) == 1)})"

    def texts(self, values: Any) -> str:
        return ", ".join(map(self.text, values))

    def call(self, function: _Standin, known: _Value, args: tuple[Any, ...]) -> Any:
        name, owner = known.name, known.owner
        if name == self.graph:
            return tuple(_Standin(self, f"out[{i}]") for i in range(self.outputs))
        if name in _OF_INPUTS:
            return _Standin(self, "an_input_of_the_graph")
        if name in _EFFECTS:
            raise NotDescribed(f"a call of {name}")
        if name == "__new__" and len(args) == 1:
            return self.make(f"new({self.text(args[0])})", fresh=True)
        if name == "object_setattr_ignore_descriptor":
            return self.do(f"set_attribute({self.texts(args)})", args[0])
        if name == "_make" and owner is not None:
            return self.make(f"make_tuple({self.texts([owner, *args])})")
        if name == "OrderedDict":
            return self.make(f"OrderedDict({self.texts(args)})", pairs=_pairs(args), fresh=True)
        if name in _MUTATORS and owner is not None:
            return self.do(f"{self.text(owner)}.{name}({self.texts(args)})", owner)
        if name == "items" and _is_standin(owner) and _known(owner).pairs is not None:
            return _known(owner).pairs
        real = self.real(known)
        if isinstance(real, type) and real not in (type, *_CONTAINERS):
            return self.make(f"construct({self.texts([function, *args])})")
        return self.make(f"{known.text}({self.texts(args)})")

    def real(self, known: _Value) -> Any:
        """Returns the object to which a path from a global variable leads now."""
        if known.owner is not None:
            return getattr(self.real(_known(known.owner)), known.name, None)
        if known.constant is not None:
            return known.constant
        return self.variables.get(known.name, getattr(builtins, known.name, None))

    def function(self, first: str, result: str) -> str:
        alive = _variables(result)
        while True:  # a line that changes an object may come after a line that uses it
            kept = [line for line in self.lines if _is_alive(line, alive)]
            wanted = alive.union(*(line.uses for line in kept))
            if wanted == alive:
                break
            alive = wanted
        body = [f"    {line.text}" for line in kept]
        return "\n".join(["def make(L, G, out):", f"    {first}", *body, f"    return {result}", ""])


def _is_alive(line: _Line, alive: frozenset[str]) -> bool:
    target = line.makes or line.changes
    return not target or target in alive


def _items(container: Any) -> list[Any]:
    if isinstance(container, slice):
        return [container.start, container.stop, container.step]
    return [*container, *container.values()] if isinstance(container, dict) else list(container)


def _pairs(args: tuple[Any, ...]) -> list[tuple[Any, Any]] | None:
    if args and _is_standin(args[0]):
        return None
    return list(dict(*args).items())


def _literal(value: Any) -> str:
    if isinstance(value, torch.dtype):
        return f"dtype({str(value).removeprefix('torch.')!r})"
    if isinstance(value, torch.device):
        return f"device({str(value)!r})"
    if isinstance(value, type) and "<locals>" not in value.__qualname__:
        return f"find_class({value.__module__!r}, {value.__qualname__!r})"
    return f"a_{type(value).__name__}"


def _is_simple(value: Any) -> bool:
    return type(value) in _SIMPLE or (type(value) is tuple and all(map(_is_simple, value)))


def _variables(text: str) -> frozenset[str]:
    return frozenset(restricted.VARIABLE.findall(text))
