# SPDX-License-Identifier: Apache-2.0
"""Errors at operators of users name the step that is missing, with its code."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx
from torch._dynamo.exc import ShortenTraceback
from torch._ops import OpOverload, OpOverloadPacket

from npugraph.fx import own_backends
from npugraph.fx.schema import is_of_user
from npugraph.fx.source_lines import source_line
from npugraph.log import logger
from npugraph.operator_steps import steps
from npugraph.operator_steps.code import indented
from npugraph.operator_steps.steps import Step
from npugraph.python_versions import add_note

_NO_META = "Operator does not support running with fake tensors"  # Dynamo's name of this graph break
_BEGIN = "step"  # of hints
_warned: set[str] = set()


class StepError(ShortenTraceback, NotImplementedError):
    """An operator of the user lacks a step, or has a wrong one. torch.compile hands it to the user as it is, without
    its own frames."""


def install() -> None:
    """Extends what torch says of unknown operators of namespaces that have others, and what Dynamo says of operators
    without a Meta function to users of npugraph's backends."""
    namespace = torch._ops._OpNamespace
    find = namespace.__getattr__

    @functools.wraps(find)
    def found(self: Any, name: str) -> Any:
        try:
            return find(self, name)
        except AttributeError as error:
            if not name.startswith("_") and _is_known(self.name):
                add_note(error, hint(f"{self.name}::{name}", steps.unknown(f"{self.name}::{name}")))
            raise

    namespace.__getattr__ = found
    tracer = torch._dynamo.symbolic_convert.InstructionTranslator
    trace = tracer.run

    @functools.wraps(trace)
    def run(self: Any) -> None:
        with _hints_in_graph_breaks() if own_backends.compiles(self.output) else contextlib.nullcontext():
            trace(self)

    tracer.run = run


def _is_known(namespace: str) -> bool:
    return any(name.startswith(f"{namespace}::") for name in torch._C._dispatch_get_all_op_names())


@contextlib.contextmanager
def _hints_in_graph_breaks() -> Iterator[None]:
    break_graph = torch._dynamo.exc.unimplemented

    @functools.wraps(break_graph)
    def broken(*, gb_type: str, hints: list[str], **known: Any) -> Any:
        cause = known.get("from_exc")
        hints = [*hints, *_hints_of(cause)]
        operator = getattr(cause, "func", None)
        if gb_type == _NO_META and is_of_user(operator):
            lacking = [step for step in (steps.functionalisation(operator), steps.meta(operator)) if step.is_missing]
            for step in lacking[:1]:
                text = hint(str(operator), step)
                _warn(str(operator), text)
                hints = [*hints, text]
        return break_graph(gb_type=gb_type, hints=hints, **known)

    # The function of torch._dynamo.utils that computes with fake tensors imports this one when it needs it. What
    # executes bytecode, and sees errors of the user's code, has imported it.
    places = (torch._dynamo.exc, torch._dynamo.symbolic_convert)
    for place in places:
        place.unimplemented = broken
    try:
        yield
    finally:
        for place in places:
            place.unimplemented = break_graph


def _hints_of(error: BaseException | None) -> list[str]:
    """The hints in the notes of an error and of those that it comes from."""
    found: list[str] = []
    while error is not None:
        found += (note for note in getattr(error, "__notes__", ()) if note.startswith(_BEGIN))
        error = error.__cause__ or error.__context__
    return found


def hint(operator: str, step: Step) -> str:
    """What an error says about the missing step of an operator, "ns::name" or "ns.name.overload"."""
    name = operator.replace("::", ".").removesuffix(".default")
    return (
        f"{_BEGIN} {step.number} of torch.ops.{name} is missing, its {step.name}: {step.text}.\n\n"
        f"{indented(step.code)}\n\n"
        f"`python -m npugraph check-op {name.replace('.', '::', 1)}` says more."
    )


def _warn(operator: str, text: str) -> None:
    """Without fullgraph=True a graph break is no error, and a user would not know of it."""
    if operator not in _warned:
        _warned.add(operator)
        logger.warning("the graph breaks at an operator, because %s", text)


def forget() -> None:
    """Warns again of what it has warned of."""
    _warned.clear()


def check_operators(gm: fx.GraphModule, computes: Callable[[Any], bool]) -> None:
    """Raises ``StepError`` for the first operator of the user in a graph of Dynamo that cannot run, or that torch
    cannot make functional. Those that the compiler ``computes`` need no kernel."""
    for node in gm.graph.nodes:
        operator = _operator(node)
        if operator is None or steps.decomposes(operator):
            continue
        if problem := _problem(node, operator, needs_kernel=not computes(operator)):
            at = f"At {source_line(node)}, " if source_line(node) else ""
            raise StepError(at + problem, first_useful_frame=None)


def _problem(node: fx.Node, operator: OpOverload, *, needs_kernel: bool) -> str:
    kernels = steps.kernels(operator, _device_of(node)) if needs_kernel else []
    found = [*kernels, steps.functionalisation(operator)]
    if missing := next((step for step in found if step.is_missing), None):
        return hint(str(operator), missing)
    return ""


def _operator(node: fx.Node) -> OpOverload | None:
    target = node.target
    if isinstance(target, OpOverloadPacket) and len(target.overloads()) == 1:
        target = getattr(target, target.overloads()[0])
    return target if is_of_user(target) else None


def _device_of(node: fx.Node) -> str:
    return steps.device_of(operand.meta.get("example_value") for operand in (node, *node.all_input_nodes))
