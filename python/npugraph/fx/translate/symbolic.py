# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes: sympy expressions of torch's ShapeEnv -> Expr of the C++ core."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import sympy
import torch
from sympy.logic.boolalg import BooleanAtom
from torch._prims_common import is_contiguous_or_false
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy import functions as f
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from npugraph import _C

Expr = _C.Expr
make = Expr.make

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class Unsupported(Exception):
    """An expression that has no counterpart in the core; the message names it."""


def _fold(op: str) -> Callable[..., Any]:
    return lambda *args: functools.reduce(lambda a, b: make(op, [a, b]), args)


def _call(op: str) -> Callable[..., Any]:
    return lambda *args: make(op, list(args))


def _negate(op: str) -> Callable[..., Any]:
    return lambda *args: make("not", [make(op, list(args))])


def _compose(outer: str, inner: str) -> Callable[..., Any]:
    return lambda *args: make(outer, [make(inner, list(args))])


def _piecewise(*cases: Any) -> Any:
    (value, _), *others = reversed(cases)
    for case, condition in others:
        value = make("where", [condition, case, value])
    return value


def _power(base: Any, exponent: Any) -> Any:
    return make("pow", [base, exponent])


# The keys are names of sympy classes, because torch defines several of these classes dynamically.
_OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": _fold("add"),
    "Mul": _fold("mul"),
    # A power of a float is a float: sympy writes the square root of an integer as Pow(x, 1/2) only in float contexts.
    "Pow": _power,
    "PowByNatural": _power,
    "FloatPow": _power,
    "FloorDiv": _call("floordiv"),
    "CleanDiv": _call("floordiv"),
    "CeilDiv": _call("ceildiv"),
    "ModularIndexing": lambda a, b, c: make("mod", [make("floordiv", [a, b]), c]),
    "Mod": _call("mod"),
    "PythonMod": _call("mod"),
    "LShift": _call("shl"),
    "RShift": _call("shr"),
    "Max": _fold("max"),
    "Min": _fold("min"),
    "FloatTrueDiv": _call("truediv"),
    "IntTrueDiv": _call("truediv"),
    "FloorToInt": _compose("to_int", "floor"),
    "CeilToInt": _compose("to_int", "ceil"),
    "TruncToInt": _compose("to_int", "trunc"),
    "RoundToInt": _compose("to_int", "round"),
    "TruncToFloat": _call("trunc"),
    "ToFloat": _call("to_float"),
    "Identity": lambda a: a,
    "Abs": _call("abs"),
    "floor": _compose("to_int", "floor"),
    "ceiling": _compose("to_int", "ceil"),
    "Where": _call("where"),
    "ExprCondPair": lambda value, condition: (value, condition),
    "Piecewise": _piecewise,
    "Eq": _call("eq"),
    "Equality": _call("eq"),
    "Ne": _call("ne"),
    "Unequality": _call("ne"),
    "StrictLessThan": _call("lt"),
    "LessThan": _call("le"),
    "StrictGreaterThan": lambda a, b: make("lt", [b, a]),
    "GreaterThan": lambda a, b: make("le", [b, a]),
    "And": _fold("and"),
    "Or": _fold("or"),
    "Not": _call("not"),
    "BitwiseFn_bitwise_and": _call("bitand"),
    "BitwiseFn_bitwise_or": _call("bitor"),
    "BitwiseFn_bitwise_xor": _call("bitxor"),
    **{f"OpaqueUnaryFn_{name}": _call(name) for name in ("sqrt", "exp", "log", "log2", "sin", "cos", "tan", "tanh")},
}

assert f.FloorDiv.__name__ in _OPERATORS


class SymbolicConverter:
    """Converts the symbolic scalars of one graph and remembers which symbols they use."""

    def __init__(self) -> None:
        self.symbols: dict[str, tuple[Any, Any]] = {}  # name -> (ScalarKind, sympy symbol or None)
        self._memo: dict[sympy.Basic, Any] = {}
        self._bounds: dict[str, tuple[int, int]] = {}  # of symbols that stand for sizes
        self._sizes: set[sympy.Basic] = set()  # of which it is known whether guards fix them at 1

    def __call__(self, value: Any) -> Any:
        """Expr of a ``torch.SymInt``, ``SymFloat``, ``SymBool`` or plain number. Raises ``Unsupported``."""
        if isinstance(value, bool):
            return Expr.boolean(value)
        if isinstance(value, int):
            return Expr.integer(value)
        if isinstance(value, float):
            return Expr.floating(value)
        expr = value.node.expr
        # A guard may fix a size at 1, as that of a broadcast dimension. torch itself replaces symbols that are fixed at
        # 1, but not expressions.
        if isinstance(value, torch.SymInt) and not expr.is_Atom and expr not in self._sizes:
            self._sizes.add(expr)
            if statically_known_true(value == 1):
                self._memo[expr] = Expr.integer(1)
        return self.convert(expr)

    def convert(self, expr: sympy.Basic) -> Any:
        """Expr of a sympy expression. Raises ``Unsupported``."""
        known = self._memo.get(expr)
        if known is None:
            known = self._memo[expr] = self._convert(expr)
        return known

    def evaluated(self, expr: sympy.Expr) -> Any:
        """Expr of a sympy expression in its own symbols, even if a symbol stands for the whole expression."""
        return self._convert(expr)

    def name(self, expr: sympy.Expr, symbol: sympy.Symbol) -> None:
        """Makes ``symbol`` stand for ``expr`` from here on."""
        self._memo[expr] = self.symbol(symbol)

    def name_sizes(self, tensor: torch.Tensor, given: set[str]) -> set[str]:
        """Makes new symbols stand for those sizes of an input that are expressions of symbols which are not ``given``.
        Strides that follow from such sizes are expressions of the new symbols. Returns the names of these."""
        named = set()
        for size in tensor.shape:
            if self._is_open(size, given):
                symbol = sympy.Symbol(f"size{len(self.symbols)}", integer=True)
                self.name(size.node.expr, symbol)
                self._bounds[symbol.name] = _clipped(size.node.shape_env.bound_sympy(size.node.expr))
                named.add(symbol.name)
        if named and is_contiguous_or_false(tensor):
            step = Expr.integer(1)
            for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
                if self._is_open(stride, given):
                    self._memo[stride.node.expr] = step
                step = make("mul", [step, make("max", [Expr.integer(1), self(size)])])
        return named

    def _is_open(self, size: Any, given: set[str]) -> bool:
        if not isinstance(size, torch.SymInt) or size.node.expr.is_Atom or size.node.expr in self._memo:
            return False
        return any(symbol.name not in given for symbol in size.node.expr.free_symbols)

    def bounds(self, name: str, shape_env: Any) -> tuple[int, int]:
        """Inclusive range of a symbol of this graph as the front end knows it, clipped to 64 bits."""
        return self._bounds.get(name) or _bounds_of_calls(shape_env, self.symbols[name][1])

    def guards(self, shape_env: Any) -> list[Any]:
        """The conditions on the symbols used so far under which torch traced the graph, beyond ``bounds``."""
        found = []
        for name, (_, symbol) in self.symbols.items():
            lower, _ = bounds(shape_env, symbol)
            if lower > self.bounds(name, shape_env)[0]:
                found.append(make("le", [Expr.integer(lower), self.symbol(symbol)]))
        for guard in getattr(shape_env, "guards", ()):
            expr = shape_env.simplify(guard.expr)
            if all(symbol.name in self.symbols for symbol in expr.free_symbols):
                with contextlib.suppress(Unsupported):
                    found.append(self.convert(expr))
        return found

    def define(self, value: Any) -> tuple[str, Any]:
        """Makes a new symbol that stands for the expression of ``value`` from here on. Returns its name and kind."""
        kind = {torch.SymInt: _C.ScalarKind.int, torch.SymFloat: _C.ScalarKind.float}.get(
            type(value), _C.ScalarKind.bool
        )
        name = f"defined{len(self.symbols)}"
        self.symbols[name] = (kind, None)
        self._memo[value.node.expr] = Expr.symbol(name, kind)
        return name, kind

    def symbol(self, symbol: sympy.Symbol) -> Any:
        """Expr of one symbol. Declares the symbol as used."""
        kind = _kind_of(symbol)
        self.symbols[symbol.name] = (kind, symbol)
        return Expr.symbol(symbol.name, kind)

    def _convert(self, expr: sympy.Basic) -> Any:
        if isinstance(expr, sympy.Symbol):
            return self.symbol(expr)
        if isinstance(expr, sympy.Integer):
            if not _INT64_MIN <= int(expr) <= _INT64_MAX:
                raise Unsupported(f"{expr} does not fit 64 bits")
            return Expr.integer(int(expr))
        if isinstance(expr, BooleanAtom):
            return Expr.boolean(bool(expr))
        if isinstance(expr, (sympy.Float, sympy.Rational)):
            return Expr.floating(float(expr))
        build = _OPERATORS.get(type(expr).__name__)
        if build is None:
            raise Unsupported(f"{expr} ({type(expr).__name__})")
        return build(*(self.convert(arg) for arg in expr.args))


def _kind_of(symbol: sympy.Symbol) -> Any:
    if symbol.is_integer:
        return _C.ScalarKind.int
    return _C.ScalarKind.float


def bounds(shape_env: Any, symbol: sympy.Symbol | None) -> tuple[int, int]:
    """Inclusive range of an integer symbol as the front end knows it, clipped to 64 bits."""
    known = shape_env.var_to_range.get(symbol) if shape_env is not None else None
    if known is None or symbol is None or not symbol.is_integer:
        return _INT64_MIN, _INT64_MAX
    return _clipped(known)


def _bounds_of_calls(shape_env: Any, symbol: sympy.Symbol | None) -> tuple[int, int]:
    """``bounds``, but 1 for torch's lower bound of 2.

    Torch gives sizes that bound because it compiles other graphs for sizes 0 and 1. vLLM drops the guards that choose
    between these graphs, and then calls with a size of 1, for which the graph is right where no operator broadcasts
    that size.
    """
    lower, upper = bounds(shape_env, symbol)
    return (1 if lower == 2 and shape_env.specialize_zero_one else lower), upper


def _clipped(known: ValueRanges[Any]) -> tuple[int, int]:
    return _clip(known.lower), _clip(known.upper)


def _clip(bound: sympy.Basic) -> int:
    if bound == -int_oo or bound == -sympy.oo:
        return _INT64_MIN
    if bound == int_oo or bound == sympy.oo:
        return _INT64_MAX
    return max(_INT64_MIN, min(_INT64_MAX, int(bound)))


def is_symbolic(value: Any) -> bool:
    """Whether a value is one of torch's symbolic scalars."""
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def is_nested_int(value: torch.SymInt) -> bool:
    """Whether a symbolic size stands for the ragged size of nested tensors, which is an object and not a number."""
    return isinstance(value, torch.SymInt) and isinstance(value.node.hint, torch.SymInt)
