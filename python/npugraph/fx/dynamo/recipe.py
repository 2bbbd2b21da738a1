# SPDX-License-Identifier: Apache-2.0
"""Describes how a function makes its result from the outputs of its graph, and which objects it changes besides.

Dynamo describes this in bytecode of one version of Python. This module walks the bytecode with texts in the place of
values. The walk gives the text of a Python function of ``L`` (arguments by name), ``G`` (modules and global variables)
and ``out`` (the graph's outputs), which every version of Python can read (``restricted``).
"""

from __future__ import annotations

import builtins
import collections
import dataclasses
import dis
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import Any

import torch

from npugraph.fx.dynamo import restricted


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
    *(setattr, collections.OrderedDict),
)
HELPERS: dict[str, Callable[..., Any]] = {f.__name__: f for f in _FUNCTIONS}

_IGNORED = {"RESUME", "NOP", "COPY_FREE_VARS", "MAKE_CELL", "PRECALL", "EXTENDED_ARG"}
_SIMPLE = (bool, int, float, str, bytes, complex, type(None), type(Ellipsis))
# Functions of Dynamo that measure, or that prepare inputs of the graph.
_OF_INPUTS = {"record_pregraph_bytecode_enter", "record_pregraph_bytecode_exit", "call_size", "call_stride"}
_OF_INPUTS |= {"call_storage_offset", "_as_tensor_fullprec", "to_fake_tensor"}
_MUTATORS = {"clear", "append", "extend", "insert", "update", "add", "__setitem__", "__delitem__"}


@dataclasses.dataclass(frozen=True)
class _Value:
    """A value of the bytecode: the text that stands for it, and what else is known of it."""

    text: str
    items: tuple[Any, ...] | None = None  # the items of a tuple, or the pairs of a dict
    owner: _Value | None = None  # the object that an attribute belongs to
    name: str = ""  # the name of an attribute or a global variable
    fresh: bool = False  # whether the recipe made it, so that changes of it matter only if it is used


@dataclasses.dataclass(frozen=True)
class _Line:
    text: str
    uses: frozenset[str]
    makes: str = ""  # a variable; the line is kept if the variable is used
    changes: str = ""  # a fresh object; the line is kept if the object is used


def describe(bytecode: CodeType, graph: str, variables: Mapping[str, Any], outputs: Sequence[str]) -> str:
    """Returns the recipe. ``graph`` is the global name of the graph's function, ``outputs`` are the texts of the values
    that it returned. Raises ``NotDescribed``, which names what a recipe cannot describe."""
    walker = _Walker(bytecode, graph, variables)
    walker.walk()
    text = walker.text(f"out = ({''.join(f'{output}, ' for output in outputs)})")
    try:
        restricted.function(text, HELPERS)
    except restricted.Refused as refused:
        raise NotDescribed(str(refused)) from None
    return text


class _Walker:
    def __init__(self, bytecode: CodeType, graph: str, variables: Mapping[str, Any]) -> None:
        self.code = bytecode
        self.graph = graph
        self.variables = variables
        self.stack: list[Any] = []
        self.fast: dict[str, _Value] = {}
        self.lines: list[_Line] = []
        self.keywords: tuple[str, ...] = ()
        self.count = 0
        self.result: _Value | None = None

    def walk(self) -> None:
        instructions = list(dis.get_instructions(self.code))
        places = {instruction.offset: i for i, instruction in enumerate(instructions)}
        at = 0
        for _ in range(200_000):
            instruction = instructions[at]
            at += 1
            if instruction.opname in _IGNORED:
                continue
            step = getattr(self, f"do_{instruction.opname.lower()}", None)
            if step is None:
                raise NotDescribed(f"instruction {instruction.opname}")
            target = step(instruction)
            if self.result is not None:
                return
            at = at if target is None else places[target]
        raise NotDescribed("a loop without an end")

    def text(self, first: str) -> str:
        assert self.result is not None
        alive = _variables(self.result.text)
        while True:  # a line that changes an object may come after a line that uses it
            kept = [line for line in self.lines if self.is_alive(line, alive)]
            wanted = alive.union(*(line.uses for line in kept))
            if wanted == alive:
                break
            alive = wanted
        body = [f"    {line.text}" for line in kept]
        return "\n".join(["def make(L, G, out):", f"    {first}", *body, f"    return {self.result.text}", ""])

    def is_alive(self, line: _Line, alive: frozenset[str]) -> bool:
        target = line.makes or line.changes
        return not target or target in alive

    # Lines of the recipe, and the stack.

    def make(self, text: str, **known: Any) -> _Value:
        variable = f"v{self.count}"
        self.count += 1
        self.lines.append(_Line(f"{variable} = {text}", _variables(text), makes=variable))
        return _Value(variable, **known)

    def do(self, text: str, changed: _Value | None = None) -> None:
        of = changed.text if changed is not None and changed.fresh else ""
        self.lines.append(_Line(text, _variables(text), changes=of))

    def pop(self, count: int) -> list[Any]:
        if not count:
            return []
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    # Instructions.

    def do_load_fast(self, it: Any) -> None:
        self.stack.append(self.fast.get(it.argval) or _Value(f"L[{it.argval!r}]"))

    do_load_deref = do_load_fast

    def do_store_fast(self, it: Any) -> None:
        self.fast[it.argval] = self.stack.pop()

    do_store_deref = do_store_fast

    def do_delete_fast(self, it: Any) -> None:
        self.fast.pop(it.argval, None)

    def do_load_const(self, it: Any) -> None:
        self.stack.append(_constant(it.argval))

    def do_load_global(self, it: Any) -> None:
        if it.arg & 1:
            self.stack.append(None)
        name = it.argval
        is_builtin = name not in self.variables and hasattr(builtins, name)
        self.stack.append(_Value(name if is_builtin else f"G[{name!r}]", name=name))

    def do_load_attr(self, it: Any) -> None:
        owner = self.stack.pop()
        made = self.make(f"{owner.text}.{it.argval}")
        self.stack.append(dataclasses.replace(made, owner=owner, name=it.argval))

    def do_load_method(self, it: Any) -> None:
        self.do_load_attr(it)
        self.stack.insert(-1, None)

    def do_push_null(self, _: Any) -> None:
        self.stack.append(None)

    def do_copy(self, it: Any) -> None:
        self.stack.append(self.stack[-it.arg])

    def do_swap(self, it: Any) -> None:
        self.stack[-1], self.stack[-it.arg] = self.stack[-it.arg], self.stack[-1]

    def do_pop_top(self, _: Any) -> None:
        self.stack.pop()

    def do_build_tuple(self, it: Any) -> None:
        items = self.pop(it.arg)
        self.stack.append(self.make(f"({_texts(items)}{',' * (len(items) == 1)})", items=tuple(items)))

    def do_build_list(self, it: Any) -> None:
        self.stack.append(self.make(f"[{_texts(self.pop(it.arg))}]", fresh=True))

    def do_build_set(self, it: Any) -> None:
        self.stack.append(self.make(f"set([{_texts(self.pop(it.arg))}])", fresh=True))

    def do_build_map(self, it: Any) -> None:
        flat = self.pop(2 * it.arg)
        self.push_dict(list(zip(flat[::2], flat[1::2], strict=True)))

    def do_build_const_key_map(self, it: Any) -> None:
        keys = self.stack.pop()
        self.push_dict(list(zip(keys.items, self.pop(it.arg), strict=True)))

    def push_dict(self, pairs: list[tuple[_Value, _Value]]) -> None:
        text = ", ".join(f"{key.text}: {value.text}" for key, value in pairs)
        self.stack.append(self.make("{" + text + "}", items=tuple(pairs), fresh=True))

    def do_build_slice(self, it: Any) -> None:
        self.stack.append(self.make(f"slice({_texts(self.pop(it.arg))})"))

    def do_list_extend(self, it: Any) -> None:
        self.change("extend", it)

    def do_list_append(self, it: Any) -> None:
        self.change("append", it)

    def do_dict_update(self, it: Any) -> None:
        self.change("update", it)

    do_dict_merge = do_dict_update

    def change(self, method: str, it: Any) -> None:
        value, owner = self.stack.pop(), self.stack[-it.arg]
        self.stack[-it.arg] = dataclasses.replace(owner, items=None)
        self.do(f"{owner.text}.{method}({value.text})", owner)

    def do_list_to_tuple(self, _: Any) -> None:
        self.stack.append(self.make(f"tuple({self.stack.pop().text})"))

    def do_binary_subscr(self, _: Any) -> None:
        owner, key = self.pop(2)
        self.stack.append(self.make(f"{owner.text}[{key.text}]"))

    def do_store_subscr(self, _: Any) -> None:
        value, owner, key = self.pop(3)
        self.do(f"{owner.text}.__setitem__({key.text}, {value.text})", owner)

    def do_delete_subscr(self, _: Any) -> None:
        owner, key = self.pop(2)
        self.do(f"{owner.text}.__delitem__({key.text})", owner)

    def do_store_attr(self, it: Any) -> None:
        value, owner = self.pop(2)
        self.do(f"setattr({owner.text}, {it.argval!r}, {value.text})", owner)

    def do_unpack_sequence(self, it: Any) -> None:
        value = self.stack.pop()
        items = value.items or [self.make(f"{value.text}[{i}]") for i in range(it.arg)]
        self.stack.extend(reversed(items))

    def do_get_iter(self, _: Any) -> None:
        value = self.stack.pop()
        if value.items is None:
            raise NotDescribed("a loop over what only a run can tell")
        self.stack.append(iter(value.items))

    def do_for_iter(self, it: Any) -> int | None:
        following = next(self.stack[-1], None)
        if following is None:
            self.stack.pop()
            return it.argval
        self.stack.append(following)
        return None

    def do_jump_backward(self, it: Any) -> int:
        return it.argval

    do_jump_forward = do_jump_backward

    def do_kw_names(self, it: Any) -> None:
        self.keywords = it.argval if isinstance(it.argval, tuple) else self.code.co_consts[it.arg]

    def do_call(self, it: Any) -> None:
        if self.keywords:
            raise NotDescribed("a call with keywords")
        args = self.pop(it.arg)
        bound, function = self.pop(2)
        if bound is not None:
            function, args = bound, [function, *args]
        self.stack.append(self.call(function, args))

    def call(self, function: _Value, args: list[_Value]) -> _Value:
        name = function.name
        if name == self.graph:
            return _Value("out")
        if name in _OF_INPUTS:
            return _Value("an_input_of_the_graph")
        if name == "__new__" and len(args) == 1:
            return self.make(f"new({args[0].text})", fresh=True)
        if name == "object_setattr_ignore_descriptor":
            self.do(f"set_attribute({_texts(args)})", args[0])
            return _constant(None)
        if name == "_make" and function.owner is not None:
            return self.make(f"make_tuple({_texts([function.owner, *args])})")
        if name == "OrderedDict":
            items = args[0].items if args else ()
            return self.make(f"OrderedDict({_texts(args)})", items=items, fresh=True)
        if name in _MUTATORS and function.owner is not None:
            self.do(f"{function.owner.text}.{name}({_texts(args)})", function.owner if function.owner.fresh else None)
            return _constant(None)
        if name == "items" and function.owner is not None and function.owner.items is not None:
            return _Value("pairs", items=tuple(_Value("pair", items=pair) for pair in function.owner.items))
        if isinstance(self.real(function), type) and name not in ("type", "tuple", "list", "dict", "set", "slice"):
            return self.make(f"construct({_texts([function, *args])})")
        return self.make(f"{function.text}({_texts(args)})")

    def real(self, value: _Value) -> Any:
        """Returns the object to which a path from a global variable leads now."""
        if value.owner is not None:
            return getattr(self.real(value.owner), value.name, None)
        return self.variables.get(value.name, getattr(builtins, value.name, None))

    def do_return_value(self, _: Any) -> None:
        self.result = self.stack.pop()


def _constant(value: Any) -> _Value:
    if isinstance(value, types.MethodType) and isinstance(value.__self__, type):
        return _Value("a_method", owner=_constant(value.__self__), name=value.__func__.__name__)
    items = tuple(map(_constant, value)) if isinstance(value, tuple) else None
    return _Value(_literal(value), items=items)


def _literal(value: Any) -> str:
    if isinstance(value, torch.dtype):
        return f"dtype({str(value).removeprefix('torch.')!r})"
    if isinstance(value, torch.device):
        return f"device({str(value)!r})"
    if isinstance(value, type) and "<locals>" not in value.__qualname__:
        return f"find_class({value.__module__!r}, {value.__qualname__!r})"
    return repr(value) if _is_simple(value) else f"a_{type(value).__name__}"


def _is_simple(value: Any) -> bool:
    return type(value) in _SIMPLE or (type(value) is tuple and all(map(_is_simple, value)))


def _texts(values: list[_Value]) -> str:
    return ", ".join(value.text for value in values)


def _variables(text: str) -> frozenset[str]:
    return frozenset(restricted.VARIABLE.findall(text))
