# SPDX-License-Identifier: Apache-2.0
"""C++ graph -> FX, so that people who know FX can read and run every stage."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from npugraph import _C
from npugraph.fx.streams.section_marks import SectionMarks
from npugraph.fx.translate.python_node import Original, original_call

_BINARY: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "bitand": operator.and_,
    "bitor": operator.or_,
    "bitxor": operator.xor,
    "truediv": operator.truediv,
    "min": torch.sym_min,
    "max": torch.sym_max,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "and": operator.and_,
    "or": operator.or_,
}
_UNARY: dict[str, Callable[..., Any]] = {
    "neg": operator.neg,
    "abs": abs,
    "round": round,
    "not": torch.sym_not,
    "to_float": torch.sym_float,
    "to_int": torch.sym_int,
    "sqrt": torch._sym_sqrt,
}


def raise_graph(
    graph: Any, callables: Mapping[int, Callable[..., Any]], streams: Sequence[Mapping[str, str]] = ()
) -> fx.GraphModule:
    """Returns a GraphModule with the graph's nodes under their names. Inputs and outputs are those of the graph, in
    order. Streams, their order and core limits are marks, as in the graph that was imported. A node's ``meta`` has the
    name of its value in the graph (``value``), the FX node that it came from (``origin``) and the user's line
    (``source``).

    ``callables`` are the functions behind the graph's Python nodes. ``streams`` are the attributes of the streams'
    scopes.
    """
    return _Raiser(graph, callables, streams).module()


class _Raiser:
    def __init__(
        self, graph: Any, callables: Mapping[int, Callable[..., Any]], streams: Sequence[Mapping[str, str]]
    ) -> None:
        self.core = graph
        self.callables = callables
        self.streams = streams
        self.root = torch.nn.Module()
        self.fx = fx.Graph()
        self.values: dict[str, fx.Node] = {}
        self.symbols: dict[str, fx.Node] = {}
        self.sized: list[tuple[fx.Node, Any]] = []

    def module(self) -> fx.GraphModule:
        self.add_inputs()
        for name, tensor in self.core.constants():
            self.root.register_buffer(name, tensor, persistent=False)
            self.values[name] = self.fx.get_attr(name)
        nodes = self.core.nodes()
        marks = SectionMarks(self.core, nodes, self.streams, self.fx)
        for described in nodes:
            marks.before(described)
            self.add_node(described)
            marks.behind(described)
        marks.end()
        self.fx.output(tuple(self.argument(output) for output in self.core.outputs()))
        return fx.GraphModule(self.root, self.fx, class_name="NpugraphStage")

    def add_inputs(self) -> None:
        for index, (name, detail, _source) in enumerate(self.core.inputs()):
            if name is None:
                is_symbol = isinstance(detail, _C.Expr) and detail.op == "symbol"
                is_new = is_symbol and str(detail) not in self.symbols
                node = self.fx.placeholder(str(detail) if is_new else f"scalar_{index}")
                if is_new:
                    self.symbols[str(detail)] = node
                continue
            self.values[name] = self.fx.placeholder(name)
            self.sized.append((self.values[name], detail or ()))

    def add_node(self, described: dict[str, Any]) -> None:
        original = original_call(self.callables[described["callable"]]) if _is_python(described) else None
        if original is not None and not described["defines"]:
            self.add_original(described, original)
        else:
            self.add_call(described)

    def add_original(self, described: dict[str, Any], original: Original) -> None:
        """Adds a Python node as the program's own call, with modules and numbers among its arguments."""
        tensors, scalars = (self.argument(value) for _, _, value in described["args"])
        constants = {n: self.module_of(described, n, value) for n, value in original.constants.items()}
        args, kwargs = original.arguments([*(t for t in tensors if t is not None), *scalars], constants)
        node = self.fx.create_node("call_function", original.node.target, args, kwargs, name=described["name"])
        node.meta |= {"origin": described["name"], "source": described["source"]}
        for index, name in enumerate(described["results"]):
            if name is not None:
                found = self.fx.call_function(operator.getitem, (node, index)) if original.gives_list else node
                self.values[name] = found

    def module_of(self, described: dict[str, Any], node: fx.Node, value: Any) -> Any:
        if not isinstance(value, torch.nn.Module):
            return value
        name = f"{described['name']}_{node.name}"
        self.root.add_module(name, value)
        return self.fx.get_attr(name)

    def add_call(self, described: dict[str, Any]) -> None:
        args = [self.argument(value) for _, keyword_only, value in described["args"] if not keyword_only]
        kwargs = {name: self.argument(value) for name, keyword_only, value in described["args"] if keyword_only}
        if _is_python(described):
            target: Any = _PythonCall(self.callables[described["callable"]], described["op"])
        else:
            target = find_operator(described["op"])
        node = self.fx.create_node("call_function", target, tuple(args), kwargs, name=described["name"] or None)
        results = described["results"]
        node.meta |= {"origin": described["name"], "source": described["source"]}
        if not described["returns_list"]:
            for name in results:
                self.values[name] = node
        else:
            for index, name in enumerate(results):
                if name is not None:
                    self.values[name] = self.fx.call_function(operator.getitem, (node, index))
                    self.values[name].meta |= node.meta
        for name in filter(None, results):
            self.values[name].meta["value"] = name
        for symbol, result, dim in described["defines"]:
            tensor = self.values[results[result]] if dim >= 0 else node
            self.symbols[symbol] = (
                self.fx.call_function(torch.ops.aten.sym_size.int, (tensor, dim)) if dim >= 0 else tensor
            )

    def argument(self, value: Any) -> Any:
        if isinstance(value, _C.Ref):
            return self.values[value.name]
        if isinstance(value, _C.Expr):
            return self.expression(value)
        if isinstance(value, list):
            return [self.argument(item) for item in value]
        return value

    def expression(self, expr: Any) -> Any:
        constant = _C.expr_value(expr)
        if constant is not None:
            return constant
        if expr.op == "symbol":
            return self.symbol(str(expr))
        args = [self.expression(arg) for arg in expr.args]
        if expr.op in _UNARY or (expr.op not in _BINARY and len(args) == 1):
            return self.fx.call_function(_UNARY.get(expr.op) or getattr(math, expr.op), (args[0],))
        if expr.op == "ceildiv":
            negative = self.fx.call_function(operator.neg, (args[0],))
            return self.fx.call_function(operator.neg, (self.fx.call_function(operator.floordiv, (negative, args[1])),))
        if expr.op == "where":
            return self.fx.call_function(torch.sym_ite, tuple(args))
        result = args[0]
        for arg in args[1:]:
            result = self.fx.call_function(_BINARY[expr.op], (result, arg))
        return result

    def symbol(self, name: str) -> fx.Node:
        if name not in self.symbols:
            for node, sizes in self.sized:
                for dim, size in enumerate(sizes):
                    if isinstance(size, _C.Expr) and str(size) == name:
                        self.symbols[name] = self.fx.call_function(torch.ops.aten.sym_size.int, (node, dim))
                        return self.symbols[name]
            raise ValueError(f"symbol {name} has no source among the graph's inputs")
        return self.symbols[name]


def _is_python(described: dict[str, Any]) -> bool:
    """Whether a Python function does the work of the node."""
    return described["op"].startswith(("python.", "nested."))


class _PythonCall:
    """A Python task of the graph, callable and printable."""

    is_python_task = True

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.__name__ = name.replace(".", "_")
        self.__module__ = "npugraph.fx.translate.raise_fx"

    def __call__(self, tensors: list[Any], scalars: list[Any]) -> Any:
        return self.function(*(t for t in tensors if t is not None), *scalars)


def find_operator(name: str) -> Any:
    namespace, operator_name, *overload = name.split(".")
    packet = getattr(getattr(torch.ops, namespace), operator_name)
    return getattr(packet, overload[0] if overload else "default")
