# SPDX-License-Identifier: Apache-2.0
"""What of a graph works here and not on Ascend: operators that torchair does not convert, element types that operators
of Ascend IR do not take, and scopes that graphs of unknown sizes cannot have."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from npugraph.ascend_findings import Finding
from npugraph.fx.schema import is_composite, is_of_user
from npugraph.fx.source_lines import source_line
from npugraph.fx.streams.scope_keys import SCOPE
from npugraph.fx.streams.scopes import at
from npugraph.fx.streams.stream_marks import LABEL
from npugraph.fx.translate.importer import InputInfo
from npugraph.ge import converters, ir
from npugraph.ge.converters import Missing
from npugraph.ge.converters.registry import name_of, operator_text
from npugraph.ge.data_types import ProtoDataType
from npugraph.ge.fx.graph import Built, attempt
from npugraph.ge.fx.scopes import scope_begun
from npugraph.ge.fx.values import constant
from npugraph.ge.normalise import data_inputs

_FORM = "_in_graphs"  # ends the names of forms of Ascend's operators that graphs have (fx/graph_forms.py)
# Not in the graphs that torch makes on Ascend: it has other operators for attention there, takes an exchange apart,
# and assertions are no operators of graphs.
_OF_THIS_HOST = (
    *("aten._scaled_dot_product_", "aten._assert", "aten.sym_", "aten.lift.default", "aten.sym_constrain_"),
    *("_c10d_functional.all_to_all_single.", "npu_define.allgather.", "air.", "npugraph"),
)

_BUILT_IN = frozenset(converters.registered())  # targets with a converter before the user registers any


@functools.cache
def _converted() -> frozenset[str]:
    """The names of targets for which torchair has a converter."""
    path = Path(converters.__file__).with_name("torchair_converters.txt")
    return frozenset(path.read_text(encoding="utf-8").split())


def of_operators(gm: fx.GraphModule, name: str, inputs: Sequence[InputInfo]) -> list[Finding]:
    """What a graph of operators has that the original refuses, in the order of its nodes."""
    built, missing = attempt(gm, name, inputs)
    texts: dict[fx.Node, list[str]] = {}
    for node, text in [*_without_converter(gm, missing), *_of_types(built)]:
        texts.setdefault(node, []).append(f"{operator_text(node)}: {text}")
    nodes = [node for node in gm.graph.nodes if node in texts]
    return list(dict.fromkeys(Finding(_place(node), text) for node in nodes for text in texts[node]))


def of_scopes(gm: fx.GraphModule) -> list[Finding]:
    """What the marks of scopes in a graph ask for that only graphs with known sizes have. The graph has no gears."""
    if not _is_dynamic(gm):
        return []
    begun = [(node, scope_begun(node)) for node in gm.graph.nodes]
    return [Finding(_place_of_mark(node), text) for node, scope in begun for text in _of_scope(scope or {})]


def _of_scope(scope: dict[str, str]) -> Iterator[str]:
    if scope.get(SCOPE):
        yield "super_kernel: a graph with unknown sizes has no super kernels; torch._dynamo.mark_static makes it static"
    if LABEL in scope and os.environ.get("ENABLE_DYNAMIC_SHAPE_MULTI_STREAM") != "1":
        yield (
            "npu_stream_switch: a graph with unknown sizes has several streams only if the environment has "
            "ENABLE_DYNAMIC_SHAPE_MULTI_STREAM=1"
        )


def _without_converter(gm: fx.GraphModule, missing: Sequence[Missing]) -> Iterator[tuple[fx.Node, str]]:
    reasons = {entry.node: entry.reason for entry in missing}
    for node in gm.graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        if is_of_user(node.target) and name_of(node.target) not in _BUILT_IN:
            if node in reasons:
                yield node, reasons[node] or "its ge_converter is not implemented"
        elif not _is_converted(node.target):
            yield node, "torchair has no ge_converter for it"


def _is_converted(target: torch._ops.OpOverload) -> bool:
    name = name_of(target)
    if name.startswith(_OF_THIS_HOST) or _is_taken_apart(target):
        return True
    whole = name.replace(f"{_FORM}.", ".")
    namespace, operator, overload = whole.split(".")
    forms = (operator, f"{operator}_functional", operator.removesuffix("_"), f"{operator}_")
    return any(f"{namespace}.{form}.{overload}" in _converted() for form in (forms if whole != name else forms[:1]))


def _is_taken_apart(target: torch._ops.OpOverload) -> bool:
    """Whether torch takes an operator of ATen apart on every device."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), torch._C.DispatchKey.CPU)
    return target.namespace == "aten" and is_composite(target) and not has_kernel


def _place(node: fx.Node) -> str:
    return source_line(node) or f"node {node.name}"


def _place_of_mark(mark: fx.Node) -> str:
    return at(mark).removeprefix(" at ") or _place(mark)


def _is_dynamic(gm: fx.GraphModule) -> bool:
    values = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
    numbers = [number for value in values for number in (value.size() if isinstance(value, torch.Tensor) else [value])]
    return any(isinstance(number, torch.SymInt) and constant(number) is None for number in numbers)


# Element types

# Words in the texts of operators for element types that have other names, and for sets of them, as Ascend says.
_WORDS = {"float32": "float", "fp32": "float", "half": "float16", "fp16": "float16", "bfloat16": "bf16"}
_WORDS |= {"float64": "double"}
_FLOATING = {"double", "float", "float16", "bf16"}
_INTEGERS = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
_COMPLEX = {"complex64", "complex128"}
_QUANTISED = {"qint8", "qint16", "qint32", "quint8", "quint16"}
_SETS = {
    "numbertype": _FLOATING | _INTEGERS | _COMPLEX | _QUANTISED,
    "basictype": _FLOATING | _INTEGERS | _COMPLEX | _QUANTISED | {"bool"},
    "realnumbertype": _FLOATING | _INTEGERS,
    "integerdatatype": _INTEGERS,
    "indexnumbertype": {"int32", "int64"},
    "unarydatatype": _FLOATING | _COMPLEX,
    "floatingdatatype": _FLOATING,
}
_NAMES = {dtype.name.removeprefix("DT_").lower() for dtype in ProtoDataType}


@functools.cache
def allowed_types(text: str) -> frozenset[str] | None:
    """The element types that Ascend IR states for an input. None if the text allows any, or says it in other words."""
    words = [word.strip().removesuffix("()") for word in text.lower().strip("{}").split(",")]
    found: set[str] = set()
    for word in (_WORDS.get(word, word) for word in words):
        if word not in _SETS and word not in _NAMES:
            return None
        found |= _SETS.get(word, {word})
    return frozenset(found)


def _of_types(built: Built) -> Iterator[tuple[fx.Node, str]]:
    """Inputs with other element types than their operators take. Constants are not among them, because converters
    choose their types."""
    made = {op.name: op for op in built.graph.op}
    for op in built.graph.op:
        node, operator = built.origins.get(op.name), ir.find(op.type)
        if node is None or operator is None or is_of_user(node.target):
            continue
        for desc, source in zip(op.input_desc, data_inputs(op), strict=False):
            name, _, place = source.rpartition(":")
            types = next((x.types for x in operator.inputs if x.name == _without_number(desc.name, x)), "ALL")
            if not name or made[name].type == "Const" or (allowed := allowed_types(types)) is None:
                continue
            given = ProtoDataType(made[name].output_desc[int(place)].dtype).name.removeprefix("DT_").lower()
            if given not in allowed and given != "undefined":
                yield node, f"{op.type} takes {', '.join(sorted(allowed))}, got {given}"


def _without_number(name: str, operand: Any) -> str:
    return name.rstrip("0123456789") if operand.is_dynamic else name
