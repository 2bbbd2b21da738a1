# SPDX-License-Identifier: Apache-2.0
"""The converters by the operators that they convert, and what an FX graph has that none of them takes, reported at
once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import fx
from torch._dynamo.exc import ShortenTraceback

from npugraph.fx.schema import is_of_user
from npugraph.fx.source_lines import source_line
from npugraph.operator_steps.code import converter_code, indented

Converter = Callable[..., Any]
_Body = TypeVar("_Body", bound=Converter)

_converters: dict[str, Converter] = {}


def register_fx_node_ge_converter(target: Any) -> Callable[[_Body], _Body]:
    """Makes the decorated function the converter of ``target``, an ``OpOverload`` or a function of Python that FX
    graphs call. The first registration of a target wins.

    The function gets the arguments of an FX node as the node has them, and ``meta_outputs``: the ``TensorSpec`` of the
    result, or a list of them. Tensors among the arguments are ``torchair.ge.Tensor``; so are numbers that only a run of
    the graph knows, with rank 0, and lists of integers with such a number. It adds operators to the current graph and
    returns the result, or a list with one for each result of the node. ``None`` stands for a result that it cannot
    compute. It raises ``NotImplementedError`` for arguments that it cannot convert. Raises ``TypeError`` for a target
    of another kind."""
    name = name_of(target)

    def register(body: _Body) -> _Body:
        add(name, body)
        return body

    return register


def add(name: str, body: Converter) -> None:
    """Makes ``body`` the converter of the target of that name, if it has none."""
    _converters.setdefault(name, body)


def find(target: Any) -> Converter | None:
    """The converter of a target; None if it has none."""
    try:
        return _converters.get(name_of(target))
    except TypeError:
        return None


def of_name(name: str) -> Converter:
    """The converter of a target in ``registered()``."""
    return _converters[name]


def registered() -> list[str]:
    """The names of all targets with a converter, sorted."""
    return sorted(_converters)


def name_of(target: Any) -> str:
    """The name of a target: ``aten.add.Tensor``, ``operator.add``, ``torch.sym_max``. Raises ``TypeError`` for a target
    that is neither an ``OpOverload`` nor a function."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target.name()}"
    name = getattr(target, "__name__", None)
    if isinstance(target, torch._ops.OpOverloadPacket) or not callable(target) or name is None:
        raise TypeError(
            f"a converter is for an overload of an operator, such as torch.ops.aten.add.Tensor, or for a function, got "
            f"{target!r} ({type(target).__name__})"
        )
    module = (getattr(target, "__module__", None) or "").removeprefix("_")
    return f"{module}.{name}" if module else name


class Missing(NamedTuple):
    """A node that is not converted. ``reason`` says why the converter of its operator refused it, or why a graph of GE
    cannot have an input or an output; empty if there is no converter."""

    node: fx.Node
    reason: str = ""


class MissingConverters(ShortenTraceback, NotImplementedError):
    """Operators of a graph, inputs or outputs cannot be converted. ``missing`` has an entry for each of their nodes, in
    the order of the graph. torch.compile hands it to the user as it is, without its own frames."""

    def __init__(self, graph_name: str, missing: Sequence[Missing]) -> None:
        self.missing = tuple(missing)
        by_operator: dict[str, list[Missing]] = {}
        for entry in filter(is_call, self.missing):
            by_operator.setdefault(operator_text(entry.node), []).append(entry)
        ends = [_line_of_end(entry) for entry in self.missing if not is_call(entry)]
        some = [_counted(len(by_operator), "operator")] if by_operator else []
        some += [_counted(len(ends), "input or output", "inputs or outputs")] if ends else []
        lines = [f"{' and '.join(some)} of graph {graph_name!r} cannot be converted to Ascend IR:"]
        lines += [_line(operator, entries) for operator, entries in by_operator.items()]
        missing_code = [_code(entries[0].node) for entries in by_operator.values()]
        super().__init__("\n".join(["\n  ".join(lines + ends), *filter(None, missing_code)]), first_useful_frame=None)


def is_call(entry: Missing) -> bool:
    """Whether a node calls an operator. Any other one is an input of the graph or stands for its outputs."""
    return entry.node.op == "call_function"


def operator_text(node: fx.Node) -> str:
    """The operator of a call as users write it: ``torch.ops.aten.sort.default``, ``operator.matmul``."""
    try:
        name = name_of(node.target)
    except TypeError:
        return str(node.target)
    is_of_torch = isinstance(node.target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator))
    return f"torch.ops.{name}" if is_of_torch else name


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


def _line(operator: str, entries: Sequence[Missing]) -> str:
    reasons = _unique(entry.reason for entry in entries if entry.reason)
    why = f" ({'; '.join(reasons)})" if reasons else ""
    places = _unique(source_line(entry.node) or f"node {entry.node.name!r}" for entry in entries)
    return f"{operator} ge_converter is not implemented!{why} At {', '.join(places)}"


def _code(node: fx.Node) -> str:
    """A converter to paste for an operator of the user that has none."""
    if not is_of_user(node.target) or find(node.target) is not None:
        return ""
    code = indented(converter_code(node.target))
    return f"step 6 of {operator_text(node).removesuffix('.default')} is missing, its converter:\n\n{code}\n"


def _line_of_end(entry: Missing) -> str:
    what = "an output" if entry.node.op == "output" else f"the input {entry.node.name}"
    return f"{what}: {entry.reason}"


def _counted(number: int, one: str, several: str = "") -> str:
    return f"1 {one}" if number == 1 else f"{number} {several or one + 's'}"


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
