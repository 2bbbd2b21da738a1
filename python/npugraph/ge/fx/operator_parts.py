# SPDX-License-Identifier: Apache-2.0
"""The parts of an operator that Ascend IR has whole and the engine has no rule for:

    z = npu.npu_swiglu(y)    ->    SwiGlu(y) with the attribute _npugraph_parts, a graph: Split, Swish, Mul

A call of a composed operator is traced by itself (``npugraph.fx.decompose``), and the converters of ATen convert what
it calls. Calls that differ only in the tensors they read share one trace."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from npugraph.fx.decompose.composed import is_composed, run_kernel
from npugraph.fx.decompose.expand import expand
from npugraph.fx.decompose.parts import fake_mode_of
from npugraph.fx.schema import arguments_by_name, is_mutable, is_of_ascend, listed, written_arguments
from npugraph.ge import ir, proto
from npugraph.ge.converters import MissingConverters
from npugraph.ge.fx.graph_forms import kernel_of
from npugraph.ge.fx.values import Symbolic, constant
from npugraph.ge.graph import Tensor
from npugraph.ge.normalise import UNFED, data_inputs, normalise

# The attribute of an operator with the graph of its parts (src/core/ge/import/inputs.h).
PARTS = "_npugraph_parts"
# Operators whose rules compute what the converters of ATen write, and not all that those of Ascend do.
_PARTLY_COMPUTED = {"GroupedMatmul", "MatMul", "PromptFlashAttention"}


class Converted(NamedTuple):
    """A graph of the parts of a call, without its end. ``data`` has the ``Data`` for an operand of the call, by the
    place of the operand among ``all_input_nodes``; ``results`` has the tensors for what ``alone`` says."""

    graph: Any  # GraphDef
    data: Mapping[int, str]
    results: tuple[Any, ...]


# Converts the graph of a call, which has the operands of the call as its placeholders and its results as its outputs.
# Raises ``MissingConverters``.
Convert = Callable[[fx.GraphModule], Converted]


class OperatorParts:
    """Parts of calls in one FX graph. ``traced`` counts the calls that were traced."""

    def __init__(self, convert: Convert) -> None:
        self.traced = 0
        self._convert = convert
        self._known: dict[Hashable, Converted | None] = {}  # None if a part has no converter

    def add(self, op: Any, node: fx.Node, operands: Mapping[fx.Node, Any], results: list[Any]) -> bool:
        """Writes the parts of the call ``node`` into ``op``, the operator that stands for it. ``operands`` are the
        values of its operands in the graph of ``op``, ``results`` those of its results and of the tensors that it
        writes. Returns False if a part has no converter. Raises ``NotImplementedError`` if an operand is no input of
        ``op``."""
        converted = self._converted(node)
        if converted is None:
            return False
        parts = op.attr[PARTS].g
        parts.CopyFrom(converted.graph)
        inputs = data_inputs(op)
        places = {name: place for place, name in reversed(list(enumerate(inputs)))}
        by_name = {part.name: part for part in parts.op}
        for number, name in converted.data.items():
            operand = operands[node.all_input_nodes[number]]
            if operand.tensor not in places:
                raise NotImplementedError(f"its operand {node.all_input_nodes[number]} is no input of {op.type}")
            by_name[name].attr["index"].i = places[operand.tensor]
        _add_end(parts, op, converted, results)
        normalise(parts)
        return True

    def _converted(self, node: fx.Node) -> Converted | None:
        key = _key(node)
        if key not in self._known:
            self.traced += 1
            try:
                self._known[key] = self._convert(alone(node))
            except MissingConverters:
                self._known[key] = None
        return self._known[key]


def is_computed(op: Any, node: fx.Node) -> bool:
    """Whether the engine has a rule for ``op``, to which the converter of ``node`` has brought it."""
    is_partly = op.type in _PARTLY_COMPUTED and is_of_ascend(node.target)
    return op.type in ir.computed_types() and not is_partly


def has_parts(node: fx.Node) -> bool:
    """Whether a node calls an operator of Ascend, or one of its collectives, that is composed of others, whether it
    writes arguments or not."""
    if not is_of_ascend(node.target) and getattr(node.target, "namespace", "") != "npu_define":
        return False
    is_form = kernel_of(node.target) is not None
    return is_form or is_composed(node.target, node.args, node.kwargs, also_writers=True)


def alone(node: fx.Node) -> fx.GraphModule:
    """The parts of a call as a graph of its operands, whose outputs are the results of the call, and behind them the
    new values of the tensors that it writes."""
    graph = fx.Graph()
    copies: dict[fx.Node, Any] = {}
    for operand in node.all_input_nodes:
        value = operand.meta["val"]
        if isinstance(value, (torch.SymFloat, torch.SymBool)):  # attributes have assumed it (``values.known``)
            copies[operand] = float(value) if isinstance(value, torch.SymFloat) else bool(value)
        else:
            copies[operand] = graph.placeholder(operand.name)
            copies[operand].meta["val"] = value
    args, kwargs = fx.map_arg((node.args, node.kwargs), copies.__getitem__)
    if is_mutable(node.target):
        gm = _parts_of_writer(node.target, graph, args, kwargs)
    else:
        call = graph.call_function(node.target, args, kwargs)  # type: ignore[arg-type]
        call.meta["val"] = node.meta["val"]
        graph.output(_results(graph, call))
        gm = expand(fx.GraphModule({}, graph))
    if any(is_mutable(part.target) for part in gm.graph.nodes):
        gm = _without_writes(gm)
    gm.graph.eliminate_dead_code()
    return gm


def _parts_of_writer(op: Any, graph: fx.Graph, args: Any, kwargs: Any) -> fx.GraphModule:
    """The parts of a call of ``op`` with these arguments, in which nodes of ``graph`` are the operands."""
    inputs = graph.find_nodes(op="placeholder")
    kernel = kernel_of(op) or functools.partial(run_kernel, op)

    def call(*values: Any) -> Any:
        known = dict(zip(inputs, values, strict=True))
        own_args, own_kwargs = fx.map_arg((args, kwargs), known.__getitem__)
        given = arguments_by_name(op, own_args, own_kwargs)
        written = {name: given[name].clone() for name in written_arguments(op)}
        results = listed(kernel(**given | written))
        return (*results, *written.values())

    with torch.no_grad(), fake_mode_of(inputs):
        gm = make_fx(functionalize(call))(*(node.meta["val"] for node in inputs))
    for part in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.clone.default):
        copied = part.args[0]
        if copied.op == "placeholder" and copied.meta["val"].stride() == part.meta["val"].stride():
            part.replace_all_uses_with(copied)  # values of the functional graph need no copy
    return expand(gm)


def _results(graph: fx.Graph, call: fx.Node) -> Any:
    values = call.meta["val"]
    if not isinstance(values, (list, tuple)):
        return (call,)
    items = []
    for index, value in enumerate(values):
        item = None
        if isinstance(value, torch.Tensor):
            item = graph.call_function(operator.getitem, (call, index))
            item.meta["val"] = value
        items.append(item)
    return tuple(items)


def _without_writes(gm: fx.GraphModule) -> fx.GraphModule:
    inputs = gm.graph.find_nodes(op="placeholder")
    with torch.no_grad(), fake_mode_of(inputs):
        return make_fx(functionalize(gm))(*(node.meta["val"] for node in inputs))


def _key(node: fx.Node) -> Hashable:
    places = {operand: place for place, operand in enumerate(node.all_input_nodes)}

    def described(argument: Any) -> Hashable:
        if isinstance(argument, fx.Node):
            return places[argument], _description(argument.meta["val"])
        return type(argument), str(argument)

    leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
    return node.target, str(spec), tuple(map(described, leaves))


def _description(value: Any) -> Hashable:
    if not isinstance(value, torch.Tensor):
        return str(value.node.expr) if isinstance(value, Symbolic) else str(value)
    numbers = (*value.size(), *value.stride(), value.storage_offset())
    return value.dtype, str(value.device), tuple(str(n if (k := constant(n)) is None else k) for n in numbers)


def _add_end(parts: Any, op: Any, converted: Converted, results: list[Any]) -> None:
    """Adds the end of the parts: for each output of ``op`` the part that computes it."""
    made = {r.tensor: tensor for r, tensor in zip(results, converted.results, strict=True) if isinstance(r, Tensor)}
    end = parts.op.add(name="NetOutput", type="NetOutput")
    for index, desc in enumerate(op.output_desc):
        tensor = made.get(f"{op.name}:{index}")
        described = end.input_desc.add(name=desc.name)
        if tensor is None:
            end.input.append("")
            described.dtype = proto.DT_UNDEFINED
            described.attr[UNFED].i = 1
        else:
            end.input.append(tensor.tensor)
            described.dtype = tensor.desc.dtype
