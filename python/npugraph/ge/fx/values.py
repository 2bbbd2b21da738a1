# SPDX-License-Identifier: Apache-2.0
"""Nodes of FX and their values as GE has them: devices, sizes, element types, texts for the engine, and all that a
conversion asks of a call."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils import _pytree as pytree

from npugraph import _C, host_device
from npugraph.fx.nodes import base_of
from npugraph.fx.schema import arguments_by_name, is_of_ascend
from npugraph.fx.source_lines import frames_of, source_line
from npugraph.fx.streams.stream_marks import is_mark
from npugraph.fx.translate.importer import SETTLED_CHECKS
from npugraph.fx.translate.symbolic import SymbolicConverter, Unsupported
from npugraph.fx.values import memory_order
from npugraph.ge.converters import user_operators
from npugraph.ge.converters.registry import Converter, code_of, find
from npugraph.ge.data_types import DataType, TensorSpec


def texts(numbers: Sequence[Any]) -> list[str] | None:
    """The numbers in the syntax of the engine (src/core/tensor/expr.h). None if it has no word for one."""
    converter = SymbolicConverter()
    try:
        return [str(converter(number)) for number in numbers]
    except Unsupported:
        return None


Symbolic = (torch.SymInt, torch.SymFloat, torch.SymBool)
_KINDS = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
# Floats of Python are doubles.
_TYPES = {torch.SymInt: DataType.DT_INT64, torch.SymFloat: DataType.DT_DOUBLE, torch.SymBool: DataType.DT_BOOL}


def call_of(result: fx.Node) -> fx.Node:
    """The call that has a result, which may be one of several."""
    while result.target is operator.getitem:
        result = result.args[0]  # type: ignore[assignment]
    return result


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
    order = _order_of(value) if isinstance(value, torch.Tensor) else ()
    try:
        spec = TensorSpec.of(value)
    except RuntimeError as error:
        raise NotImplementedError(str(error)) from None
    known = map(constant, spec.size)
    sizes = tuple(n if k is None else k for n, k in zip(spec.size, known, strict=True))
    return TensorSpec(spec.dtype, sizes, order)


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


aten = torch.ops.aten


def device_of(graph: fx.Graph) -> torch.device:
    """The device of the first tensor on npu, inputs before results; the host if there is none."""
    tensors = (tensor for node in graph.nodes for tensor in _tensors_of(node))
    return next((tensor.device for tensor in tensors if tensor.device.type == "npu"), torch.device("cpu"))


class Placement:
    """Which tensors a graph of GE on ``device`` can have. All of its results are there. It reads scalars of the host
    too, and computes such as it reads itself, but none that the FX graph ``graph`` returns or writes."""

    def __init__(self, graph: fx.Graph, device: torch.device) -> None:
        self._device = device
        self._kept = {call_of(output) for output in graph.output_node().all_input_nodes}

    def is_input(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor can be an input. Of one of the host with dimensions, only the sizes are read."""
        return tensor.device == self._device or tensor.device.type == "cpu"

    def refusal(self, node: fx.Node) -> str:
        """Why the graph cannot have the call of a node, "" if it can."""
        for tensor in _tensors_of(node):
            is_kept = node in self._kept or node.target is aten.copy_.default
            if tensor.device != self._device and (is_kept or not _is_scalar_of_host(tensor)):
                return f"it makes a tensor on {tensor.device} in a graph for {self._device}"
        on_host = _read_on_host(node)
        for operand in node.all_input_nodes:
            for tensor in _tensors_of(operand) if operand not in on_host else ():
                if tensor.device != self._device and not _is_scalar_of_host(tensor):
                    return f"it reads a tensor on {tensor.device} in a graph for {self._device}"
        return ""


def _is_scalar_of_host(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dim() == 0


def _read_on_host(node: fx.Node) -> list[Any]:
    """Operands that an operator of Ascend reads on the host, such as lengths, and that may be there."""
    if not is_of_ascend(node.target):
        return []
    given = arguments_by_name(node.target, node.args, node.kwargs)
    return [given.get(name) for name in host_device.names_on_host(node.target.name())]


def _tensors_of(node: fx.Node) -> Iterator[Any]:
    return (leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor))


@dataclasses.dataclass(frozen=True)
class Call:
    """What a conversion asks of a call."""

    node: fx.Node
    code: str  # as a line of a program
    line: str  # of the user's program; "" if nobody knows it
    stack: list[str]  # the same as lines of a stack of Python, the outermost first
    converter: Converter | None
    specs: Any  # of its results; see ``specs_of``
    why_no_specs: str  # "" if GE has its results
    refusal: str  # why a graph of GE cannot have it, "" if it can


def calls_of(graph: fx.Graph, placement: Placement, of_host: Collection[Any] = ()) -> dict[fx.Node, Call]:
    """The calls of a graph that may be converted, by their nodes, in order. Those of the operators ``of_host`` are left
    to the host."""
    nodes = [node for node in graph.nodes if node.op == "call_function" and node.target not in SETTLED_CHECKS]
    return {node: _call(node, placement, node.target in of_host) for node in nodes if not is_mark(node)}


def _call(node: fx.Node, placement: Placement, is_of_host: bool) -> Call:
    refusal = placement.refusal(node)
    if not refusal and _names_places_of_input(node):
        refusal = "it counts places from the start of memory in which an input may lie anywhere"
    specs, why_no_specs = None, ""
    try:
        specs = specs_of(node.meta.get("val"))
    except NotImplementedError as error:
        why_no_specs = str(error)
    stack = [f'File "{file}", line {line}, in {function}' for file, line, function in frames_of(node)]
    if is_of_host:
        converter = functools.partial(user_operators.of_host, node.target)
    else:
        converter = find(node.target) or user_operators.converter(node.target)
    return Call(node, code_of(node), source_line(node), stack, converter, specs, why_no_specs, refusal)


def _names_places_of_input(node: fx.Node) -> bool:
    """Whether a call names places in the memory of an input by an offset, which does not count from the input."""
    if node.target is not aten.as_strided.default:
        return False
    given = arguments_by_name(node.target, node.args, node.kwargs)
    return given.get("storage_offset") is not None and base_of(given["self"]).op == "placeholder"
