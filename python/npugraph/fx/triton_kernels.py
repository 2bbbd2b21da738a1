# SPDX-License-Identifier: Apache-2.0
"""Operators for kernels of Triton, which run under its interpreter (``TRITON_INTERPRET=1``).

A graph calls a kernel as an operator of the namespace ``triton_kernels``. The tensors, numbers and the grid of the call
are its arguments, and the schema says which tensors it writes. Everything else that the call passes belongs to the
operator.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import inspect
import itertools
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from npugraph.python_operators import define

_WRITING = ("store", "atomic", "asm")  # parts of names of functions of triton.language that write
_NOTHING: frozenset[str] = frozenset()


@functools.cache
def written_parameters(function: Callable[..., Any]) -> frozenset[str]:
    """The parameters of the function of a kernel through which it may write."""
    return _written(function, ())


def _written(function: Callable[..., Any], callers: tuple[Callable[..., Any], ...]) -> frozenset[str]:
    parameters = frozenset(inspect.signature(function).parameters)
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return parameters
    if function in callers:
        return parameters
    definition = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    pointers = _Pointers(function, parameters, (*callers, function))
    while pointers.grow(definition):
        pass
    return frozenset(pointers.written)


class _Pointers(ast.NodeVisitor):
    """For each name of a function, the parameters that it may point into."""

    def __init__(
        self, function: Callable[..., Any], parameters: frozenset[str], callers: tuple[Callable[..., Any], ...]
    ) -> None:
        self.written: set[str] = set()
        self._into = {name: frozenset({name}) for name in parameters}
        self._names = vars(builtins) | function.__globals__ | inspect.getclosurevars(function).nonlocals
        self._callers = callers

    def grow(self, definition: ast.FunctionDef) -> bool:
        """Follows each statement once. Returns whether more became known; a loop may carry it back to its begin."""
        before = dict(self._into), set(self.written)
        for statement in definition.body:
            self.visit(statement)
        return before != (self._into, self.written)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign | ast.AnnAssign | ast.NamedExpr) -> None:
        if node.value is not None:
            self._assign(node.target, node.value)
        self.generic_visit(node)

    visit_AnnAssign = visit_NamedExpr = visit_AugAssign

    def visit_For(self, node: ast.For) -> None:
        self._assign(node.target, node.iter)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        called = self._value(node.func)
        kernel = getattr(called, "fn", called)  # jit wraps the function
        module = getattr(kernel, "__module__", None) or ""
        if module == "builtins" and called is not None:
            return
        if module.split(".")[0] == "triton":
            if not any(word in getattr(kernel, "__name__", "") for word in _WRITING):
                return
            self.written |= self._parameters(node)
        elif kernel is not called and callable(kernel):
            self._call(node, kernel)
        else:
            self.written |= self._parameters(node)

    def _call(self, node: ast.Call, function: Callable[..., Any]) -> None:
        """Follows a call of another kernel."""
        written = _written(function, self._callers)
        by_name = dict(zip(inspect.signature(function).parameters, node.args, strict=False))
        by_name |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg is not None}
        is_plain = len(by_name) == len(node.args) + len(node.keywords)
        for name, argument in by_name.items():
            if name in written or not is_plain:
                self.written |= self._parameters(argument)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        found = self._parameters(value)
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                self._into[name.id] = self._into.get(name.id, _NOTHING) | found

    def _parameters(self, node: ast.AST) -> frozenset[str]:
        """The parameters that the value of an expression may point into."""
        if isinstance(node, ast.Name):
            return self._into.get(node.id, _NOTHING)
        if isinstance(node, ast.Call) and getattr(self._value(node.func), "__name__", "") == "load":
            return _NOTHING
        return _NOTHING.union(*(self._parameters(child) for child in ast.iter_child_nodes(node)))

    def _value(self, node: ast.expr) -> Any:
        """What a dotted name means; None for other expressions, and for names of the function."""
        if isinstance(node, ast.Name):
            return None if node.id in self._into else self._names.get(node.id)
        return getattr(self._value(node.value), node.attr, None) if isinstance(node, ast.Attribute) else None


NAMESPACE = "triton_kernels"
GRID = "launch_grid"  # the operator's name of the argument; no kernel should have a parameter of that name

# Types of schemas, by the types of values.
_TYPES: dict[type, str] = {int: "SymInt", torch.SymInt: "SymInt", bool: "bool", float: "float"}


def type_of(value: Any) -> str | None:
    """The type of an argument in a schema; None if such a value cannot be an argument."""
    return "Tensor" if isinstance(value, torch.Tensor) else _TYPES.get(type(value))


@dataclasses.dataclass(frozen=True)
class Launch:
    """Calls of a kernel that differ only in the values of their operands. ``operands`` are pairs of a parameter and its
    type in a schema, ``constants`` a parameter, its value, and the type of the value, because 1 equals 1.0 and True.
    ``repeated`` are pairs of a parameter and the operand whose tensor it gets too. ``written`` has the parameters that
    are written."""

    kernel: Any
    operands: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any, type], ...]
    repeated: tuple[tuple[str, str], ...]
    written: frozenset[str]

    def operator(self) -> torch._ops.OpOverload:
        """The operator of these calls. It takes the operands, and then the grid. Raises ``TypeError`` for a constant
        that cannot be hashed."""
        try:
            return _operator(self)
        except TypeError as error:
            raise TypeError(
                f"the Triton kernel {self.kernel.__name__} is called with {self._named_constants()!r}; in a graph its "
                f"arguments are tensors, numbers and values that can be hashed, so pass tuples for lists ({error})"
            ) from None

    def run(self, values: Sequence[Any], grid: Sequence[int]) -> None:
        given = {name: on_host(value) for (name, _), value in zip(self.operands, values, strict=True)}
        given |= {name: given[operand] for name, operand in self.repeated}
        self.kernel[tuple(grid)](**given, **self._named_constants())

    def _named_constants(self) -> dict[str, Any]:
        return {name: value for name, value, _ in self.constants}

    def schema(self, name: str) -> str:
        written = {dict(self.repeated).get(parameter, parameter) for parameter in self.written}
        arguments = [
            f"Tensor(a{place}!) {parameter}" if type_ == "Tensor" and parameter in written else f"{type_} {parameter}"
            for place, (parameter, type_) in enumerate(self.operands)
        ]
        return f"{name}({', '.join([*arguments, f'SymInt[] {GRID}'])}) -> ()"


def launch_of(
    kernel: Any,
    named: Mapping[str, Any],
    type_of: Callable[[Any], str | None] = type_of,
    constant_of: Callable[[Any], Any] = lambda value: value,
    identity: Callable[[Any], object] = id,
    written: Iterable[str] | None = None,
) -> Launch:
    """What a call passes, by parameters of the kernel. Values are of any kind: ``type_of`` gives the type of one in a
    schema, ``constant_of`` the Python value of one that has no such type or whose parameter is a ``tl.constexpr``, and
    ``identity`` says which tensors are the same. ``written`` are the parameters that are written, by default those that
    the source of the kernel says."""
    operands: dict[str, str] = {}
    constants: dict[str, Any] = {}
    repeated: dict[str, str] = {}
    first: dict[object, str] = {}
    for name, value in named.items():
        type_ = None if name in constexprs(kernel) else type_of(value)
        if type_ is None:
            constants[name] = constant_of(value)
        elif type_ == "Tensor" and (seen := first.setdefault(identity(value), name)) != name:
            repeated[name] = seen
        else:
            operands[name] = type_
    return Launch(
        kernel,
        tuple(operands.items()),
        tuple((name, value, type(value)) for name, value in constants.items()),
        tuple(repeated.items()),
        written_parameters(kernel.fn) if written is None else frozenset(written),
    )


@functools.cache
def _operator(launch: Launch) -> torch._ops.OpOverload:
    name = _unused_name(launch.kernel.__name__)
    define(NAMESPACE, launch.schema(name))(lambda *values: launch.run(values[:-1], values[-1]))
    torch.library.register_fake(f"{NAMESPACE}::{name}", lambda *values: None)
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _unused_name(wish: str) -> str:
    names = itertools.chain([wish], (f"{wish}_{number}" for number in itertools.count(1)))
    return next(name for name in names if not hasattr(getattr(torch.ops, NAMESPACE), name))


def on_host(value: Any) -> Any:
    """A tensor as another one of cpu in the same memory. Triton's interpreter copies whole storages of other devices,
    and keeps storages of cpu alive after the call, which makes a captured graph leave them a copy."""
    if not isinstance(value, torch.Tensor):
        return value
    last = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    bytes_ = (last + 1) * value.element_size() if value.numel() else 0
    memory = torch._C._construct_storage_from_data_pointer(value.data_ptr(), torch.device("cpu"), bytes_)
    return torch.empty(0, dtype=value.dtype).set_(memory, 0, value.shape, value.stride())


def named_arguments(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the parameters of the kernel. What is none of them, such as ``num_warps``, only tells
    a compiler how to compile."""
    named = dict(zip(kernel.arg_names, args, strict=False)) | dict(kwargs)
    return {name: value for name, value in named.items() if name in kernel.arg_names}


def call_operator(kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Calls the operator of a kernel."""
    named = named_arguments(kernel, args, kwargs)
    launch = launch_of(kernel, named, constant_of=lambda v: int(v) if isinstance(v, torch.SymInt) else v)
    places = grid(named) if callable(grid) else grid
    launch.operator()(*(named[name] for name, _ in launch.operands), list(places))


@functools.cache
def constexprs(kernel: Any) -> frozenset[str]:
    """The parameters that are ``tl.constexpr``. Their values are never symbols."""
    annotations = getattr(kernel.fn, "__annotations__", {})
    return frozenset(name for name, kind in annotations.items() if "constexpr" in str(kind))


def is_recorded(values: Any) -> bool:
    """Whether somebody records what happens to the tensors among ``values``, so that a kernel must not just run: they
    are fake, or a dispatch mode is active."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch._subclasses.functional_tensor import FunctionalTensor

    if torch.utils._python_dispatch._get_current_dispatch_mode() is not None:
        return True
    return any(
        isinstance(x, (FakeTensor, FunctionalTensor)) or torch._is_functional_tensor(x) for x in _tensors(values)
    )


def check_not_captured(kernel: Any, values: Any) -> None:
    """Raises ``RuntimeError`` for npu tensors while a stream is captured: a capture records operators of the device."""
    if any(x.device.type == "npu" for x in _tensors(values)) and torch.npu.is_current_stream_capturing():
        raise RuntimeError(
            f"torch.npu.graph captures operators of npu, but Triton's interpreter runs the kernel {kernel.__name__} in "
            "Python, so a replay would not run it. Call the kernel in a function that torch.compile has compiled with "
            'backend="npugraph_ex"; graphs can capture that'
        )


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]
