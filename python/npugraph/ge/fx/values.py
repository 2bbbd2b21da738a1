# SPDX-License-Identifier: Apache-2.0
"""Values of FX nodes: which are numbers, what GE knows of a result, and nodes as lines of code."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch import fx

from npugraph import _C
from npugraph.fx.source_lines import frames_of
from npugraph.fx.strides import memory_order
from npugraph.ge.converters.missing import operator_text
from npugraph.ge.data_types import DataType
from npugraph.ge.fx.texts import texts
from npugraph.ge.tensor import TensorSpec

Symbolic = (torch.SymInt, torch.SymFloat, torch.SymBool)
_KINDS = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
# Floats of Python are doubles.
_TYPES = {torch.SymInt: DataType.DT_INT64, torch.SymFloat: DataType.DT_DOUBLE, torch.SymBool: DataType.DT_BOOL}


def is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, *Symbolic))


def constant(number: Any) -> Any:
    """A number that is known before a run; None for another one."""
    if not isinstance(number, Symbolic):
        return number
    expr = number.node.expr
    is_known = expr.is_number or expr in (sympy.true, sympy.false)
    return _KINDS[type(number)](expr) if is_known else None


def spec_of(value: Any) -> TensorSpec:
    """That of a tensor or a number. Raises ``NotImplementedError`` for a tensor that GE does not have."""
    if isinstance(value, Symbolic):
        return TensorSpec(_TYPES[type(value)], ())
    if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
        raise NotImplementedError(f"GE has no tensors of the layout {value.layout}")
    try:
        spec = TensorSpec.of(value)
    except RuntimeError as error:
        raise NotImplementedError(str(error)) from None
    known = map(constant, spec.size)
    sizes = tuple(n if k is None else k for n, k in zip(spec.size, known, strict=True))
    return TensorSpec(spec.dtype, sizes, _order_of(value) if isinstance(value, torch.Tensor) else ())


def _order_of(value: torch.Tensor) -> tuple[int, ...] | None:
    """See ``TensorSpec``."""
    order = memory_order(value) if constant(value.storage_offset()) == 0 else None
    if order is None:
        return None
    return () if order == sorted(order) else tuple(order)


def specs_of(value: Any) -> Any:
    """The ``TensorSpec`` of a result, a list of them for several ones, None where there is none. Raises
    ``NotImplementedError`` for a value that GE does not have."""
    if isinstance(value, (list, tuple)):
        return [specs_of(part) for part in value]
    if value is None:
        return None
    if not is_number(value) and not isinstance(value, torch.Tensor):
        raise not_of_ge(value)
    return spec_of(value)


def not_of_ge(value: Any) -> NotImplementedError:
    """The error for a value that is neither a number nor a tensor."""
    what = f"{value.what} tensors" if isinstance(value, _C.Opaque) else f"values of type {type(value).__name__}"
    return NotImplementedError(f"GE has no {what}")


def refusal(value: Any) -> str:
    """Why a graph of GE cannot have a value as an input, "" if it can."""
    try:
        specs_of(value)
    except NotImplementedError as error:
        return str(error)
    is_told = not isinstance(value, Symbolic) or constant(value) is not None or texts([value]) is not None
    return "" if is_told else f"the engine has no word for the number {value}"


def code_of(node: fx.Node) -> str:
    """The node as a line of code."""
    if node.op != "call_function":
        return f"{node.name} = {node.op}[{node.target}]"
    arguments = [*map(_text, node.args), *(f"{name}={_text(value)}" for name, value in node.kwargs.items())]
    return f"{node.name} = {operator_text(node)}({', '.join(arguments)})"


def _text(argument: Any) -> str:
    if isinstance(argument, (list, tuple)):
        return f"[{', '.join(map(_text, argument))}]"
    return argument.name if isinstance(argument, fx.Node) else repr(argument)


def stack_of(node: fx.Node) -> list[str]:
    """The node's place in the user's program, as lines of a stack of Python, the outermost first."""
    return [f'File "{file}", line {line}, in {function}' for file, line, function in frames_of(node)]
