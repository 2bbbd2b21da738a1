# SPDX-License-Identifier: Apache-2.0
"""Functions of torch as graphs of GE, and these as text that tests compare."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from npugraph.fx.translate.importer import InputInfo
from npugraph.ge import const, ir, proto
from npugraph.ge.data_types import DataType, of_proto
from npugraph.ge.executor import TorchNpuGraph
from npugraph.ge.fx.graph import Built, build
from npugraph.ge.normalise import data_inputs, is_control, normalise


def traced(function: Callable[..., Any], *inputs: Any, dynamic: bool = False) -> fx.GraphModule:
    """The graph of operators that the function calls. Inputs are called as its parameters. With ``dynamic``, their
    sizes are symbols."""
    distinct = pytree.tree_map_only(torch.Tensor, torch.clone, inputs)  # an input that stands twice is one for make_fx
    with torch.no_grad():
        gm = make_fx(lambda *args: function(*args), tracing_mode="symbolic" if dynamic else "fake")(*distinct)
    for node, name in zip(gm.graph.find_nodes(op="placeholder"), inspect.signature(function).parameters, strict=True):
        node._rename(name)
    gm.recompile()
    return gm


def user_inputs(gm: fx.GraphModule) -> list[InputInfo]:
    return [InputInfo("user", f"L['{node.name}']") for node in gm.graph.find_nodes(op="placeholder")]


def built(gm: fx.GraphModule, name: str = "g") -> Built:
    return build(gm, name, user_inputs(gm))


def converted(function: Callable[..., Any], *inputs: Any, dynamic: bool = False) -> str:
    """What a function returns, as formulas of its inputs. Its results are operands of another operator, because views
    of inputs are otherwise made by the host."""

    @functools.wraps(function)
    def used(*args: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, _used, function(*args))

    terms = formula(built(traced(used, *inputs, dynamic=dynamic)).graph).split("; ")
    return "; ".join(term.partition("(")[2].removesuffix(")") for term in terms)


def _used(result: torch.Tensor) -> torch.Tensor:
    return torch.logical_not(result) if result.dtype == torch.bool else torch.neg(result)


def formula(graph: Any) -> str:
    """The outputs of a graph of GE as formulas: ``Add(x, 2.0)``. Attributes that have their defaults, and those whose
    names begin with an underscore, are left out; so are formats. Writes of inputs stand behind the outputs."""
    writer = _Writer({op.name: op for op in graph.op})
    (end,) = [op for op in graph.op if op.type == "NetOutput"]
    terms = [writer.term(source) for source in data_inputs(end)]
    return "; ".join([*terms, *(writer.term(source[:-3] + ":0") for source in end.input if is_control(source))])


class _Writer:
    def __init__(self, ops: dict[str, Any]) -> None:
        self.ops = ops

    def term(self, source: str) -> str:
        name, _, index = source.rpartition(":")
        op = self.ops[name]
        if op.type in ("Data", "RefData"):
            return name
        if op.type == "Const":
            return _constant(op.attr["value"].t)
        operator = ir.find(op.type)
        assert operator is not None, op.type
        has_many = len(operator.outputs) > 1 or operator.outputs[0].is_dynamic
        arguments = [*self.inputs(op, operator), *_attributes(op, operator)]
        return f"{op.type}({', '.join(arguments)}){f'[{index}]' if has_many else ''}"

    def inputs(self, op: Any, operator: ir.Operator) -> Iterator[str]:
        sources = {desc.name: source for desc, source in zip(op.input_desc, data_inputs(op), strict=True)}
        is_behind_absent = False
        for operand in operator.inputs:
            if operand.is_dynamic:
                parts = [self.term(sources[name]) for name in sources if name[: len(operand.name)] == operand.name]
                yield f"[{', '.join(parts)}]"
            elif sources.get(operand.name):
                term = self.term(sources[operand.name])
                yield f"{operand.name}={term}" if is_behind_absent else term
            else:
                is_behind_absent = True


def _constant(tensor: Any) -> str:
    values = const.tensor_of(tensor)
    dtype = of_proto(tensor.desc.dtype)
    kind = "" if dtype in (DataType.DT_FLOAT, DataType.DT_INT64, DataType.DT_BOOL) else f":{dtype.name[3:]}"
    return f"{values.tolist()}{kind}"


def _attributes(op: Any, operator: ir.Operator) -> Iterator[str]:
    for row in operator.attributes:
        if row.name in ("N", "data_format") or row.name not in op.attr:
            continue
        expected = proto.AttrDef()
        if not row.is_required:
            row.kind(row.default).write(expected)
        if op.attr[row.name] == expected:
            continue
        value = getattr(op.attr[row.name], op.attr[row.name].WhichOneof("value"))
        if row.name == "dst_type":
            yield DataType(value).name[3:]
        else:
            yield f"{row.name}={_text(row, value)}"


def _text(row: Any, value: Any) -> str:
    if hasattr(value, "val_type"):
        return str(list(getattr(value, row.kind.of.field)))
    if isinstance(value, bytes):
        return repr(value.decode())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def random_tensor(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Equal for equal arguments. Integers are 1, 2 and 3."""
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point:
        return torch.randn(size, generator=generator).to(dtype)
    low, high = (0, 2) if dtype is torch.bool else (1, 4)
    return torch.randint(low, high, size, generator=generator).to(dtype)


def check_values(function: Callable[..., Any], *inputs: Any, dynamic: bool = False) -> None:
    """Compares what the engine computes with eager mode."""
    expected = pytree.tree_leaves(function(*inputs))
    found = computed(function, *inputs, dynamic=dynamic)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)
        assert ours.stride() == theirs.stride()


def computed(function: Callable[..., Any], *inputs: Any, dynamic: bool = False) -> list[Any]:
    """What the engine computes for a function: the leaves of its result."""
    return run(built(traced(function, *inputs, dynamic=dynamic)), inputs)


def run(made: Built, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a call of a converted graph, which the engine compiles."""
    normalise(made.graph.proto)
    executor = TorchNpuGraph(made.graph.name)
    executor.load(made.graph)
    executor.compile()
    return made.outputs.finisher()(inputs)(executor.run(list(made.picker()(inputs))))
