# SPDX-License-Identifier: Apache-2.0
"""FX graph -> C++ graph.

Every node becomes an ATen node, a symbolic scalar, or, where neither is possible, a Python task of exactly that node.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import CallMethodKey, ConvertIntKey, DivideByKey, resolve_unbacked_bindings
from torch.utils import _pytree as pytree

from npugraph import _C
from npugraph.fx.python_node import Objects, attribute, make_callable
from npugraph.fx.symbolic import SymbolicConverter, Unsupported, bounds, is_symbolic


@dataclasses.dataclass(frozen=True)
class InputInfo:
    """What the front end knows of one graph input: "user", "parameter", "buffer" or "static", and Dynamo's source."""

    kind: str
    source: str


@dataclasses.dataclass
class Imported:
    """A C++ graph, and what must live as long as it runs."""

    graph: Any
    partitions: list[Any]
    callables: dict[int, Callable[..., Any]]  # of Python nodes, registered
    objects: Objects
    object_inputs: list[tuple[int, str]]  # inputs that no task can carry: position, name


_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (.+)')

# Checks of facts that compiling has already established: they have no results and never fail afterwards.
_SETTLED_CHECKS = {
    torch.ops.aten.sym_constrain_range.default,
    torch.ops.aten.sym_constrain_range_for_size.default,
    torch.ops.aten._assert_tensor_metadata.default,
}


def import_graph(gm: fx.GraphModule, name: str, inputs: Sequence[InputInfo]) -> Imported:
    """Imports an AOTAutograd graph. ``inputs`` describes its placeholders in order."""
    importer = _Importer(gm, name)
    for node in gm.graph.nodes:
        importer.add(node, inputs)
    return importer.finish()


class _Importer:
    def __init__(self, gm: fx.GraphModule, name: str) -> None:
        self.gm = gm
        self.convert = SymbolicConverter()
        self.core = _C.FxImporter(name, self.convert)
        self.partitions: list[Any] = []
        self.callables: dict[int, Callable[..., Any]] = {}
        self.objects = Objects()
        self.object_inputs: list[tuple[int, str]] = []
        self.constants: dict[fx.Node, Any] = {}
        self.stored: set[fx.Node] = set()
        self.scalars: dict[fx.Node, Any] = {}
        self.num_inputs = 0
        self.shape_env: Any = None

    def finish(self) -> Imported:
        for name, (kind, symbol) in self.convert.symbols.items():
            self.core.add_symbol(name, kind, *bounds(self.shape_env, symbol))
        return Imported(self.core.finish(), self.partitions, self.callables, self.objects, self.object_inputs)

    def add(self, node: fx.Node, inputs: Sequence[InputInfo]) -> None:
        if node.op == "placeholder":
            self.add_placeholder(node, inputs[self.num_inputs])
            self.num_inputs += 1
        elif node.op == "get_attr":
            self.add_attribute(node)
        elif node.op == "output":
            self.core.add_outputs(pytree.tree_leaves(node.args[0], is_leaf=lambda x: x is None))
        else:
            self.add_call(node)

    def add_placeholder(self, node: fx.Node, info: InputInfo) -> None:
        value = node.meta.get("val")
        self.note_shape_env(value)
        if isinstance(value, torch.Tensor):
            self.core.add_input(node, value, info.kind, info.source)
        elif is_symbolic(value) or isinstance(value, (bool, int, float)):
            self.scalars[node] = self.convert(value)
            self.core.add_scalar_input(node, self.scalars[node], info.source)
        else:
            self.object_inputs.append((self.num_inputs, node.name))
            self.stored.add(node)

    def add_attribute(self, node: fx.Node) -> None:
        value = attribute(self.gm, node.target)
        if isinstance(value, torch.Tensor):
            self.core.add_constant(node, value)
        else:
            self.constants[node] = value

    def add_call(self, node: fx.Node) -> None:
        value = node.meta.get("val")
        self.note_shape_env(value)
        if node.target in _SETTLED_CHECKS:
            return
        if node.target is operator.getitem and self.core.bind_item(node, node.args[0], node.args[1]):
            return
        reason = f"{node.target} is not an ATen operator"
        try:
            defines = self.definitions(node)
            if not defines and (is_symbolic(value) or isinstance(value, (bool, int, float))):
                self.scalars[node] = self.convert(value)
                self.core.bind_scalar(node, self.scalars[node])
                return
            if isinstance(node.target, torch._ops.OpOverload):
                defs = [define for define, _ in defines]
                reason = self.core.add_operator(node, defs, source_line(node))
        except Unsupported as unsupported:
            reason = f"symbolic expression {unsupported}"
            defines = []
        if reason is not None:
            self.add_python(node, defines, reason)
        elif is_symbolic(value):
            self.scalars[node] = self.convert(value)

    def note_shape_env(self, value: Any) -> None:
        if self.shape_env is None and is_symbolic(value):
            self.shape_env = value.node.shape_env
        elif self.shape_env is None and isinstance(value, torch.Tensor):
            self.shape_env = getattr(getattr(value, "fake_mode", None), "shape_env", None)

    def definitions(self, node: fx.Node) -> list[tuple[Any, Callable[[Any], Any]]]:
        """Symbols that the node defines, each with a function that reads its value from the node's real result."""
        bindings = node.meta.get("unbacked_bindings")
        if not bindings:
            return []
        resolved = resolve_unbacked_bindings(self.shape_env, bindings) or {}
        return [self.definition(symbol, path) for symbol, path in resolved.items()]

    def definition(self, symbol: Any, path: tuple[Any, ...]) -> tuple[Any, Callable[[Any], Any]]:
        self.convert.symbol(symbol)
        kind = self.convert.symbols[symbol.name][0]
        result, dim = 0, -1
        for key in path:
            if isinstance(key, pytree.SequenceKey) and dim == -1 and key is path[0]:
                result = key.idx
            elif isinstance(key, pytree.SequenceKey):
                dim = key.idx
            elif isinstance(key, CallMethodKey) and key.name == "size":
                dim = -2
            elif isinstance(key, CallMethodKey) and key.name == "item":
                dim = -1
            elif isinstance(key, (DivideByKey, ConvertIntKey)) or isinstance(key, CallMethodKey):
                raise Unsupported(f"{symbol} read from a result by {path}")
        return _C.SymbolDef(symbol.name, kind, result, dim), lambda value: pytree.key_get(value, path)

    def add_python(self, node: fx.Node, defines: Sequence[Any], reason: str) -> None:
        operands = [n for n in node.all_input_nodes if not self.is_known_otherwise(n)]
        stored = [n for n in node.all_input_nodes if n in self.stored]
        constants = {n: self.constants[n] for n in node.all_input_nodes if n in self.constants}
        # A task gets only those scalars whose value is not known yet.
        known = {n: self.scalars[n] for n in node.all_input_nodes if n in self.scalars}
        scalars = [n for n, expr in known.items() if expr.op != "constant"]
        constants |= {n: _C.expr_value(expr) for n, expr in known.items() if expr.op == "constant"}
        source = source_line(node)
        label = _label(node)
        for keep in (True, False):
            run = make_callable(node, operands, scalars, constants, self.objects, stored, keep, [read for _, read in defines])
            callable_id = _C.register_callable(run)
            exprs = [self.scalars[n] for n in scalars]
            defs = [define for define, _ in defines]
            refusal = self.core.add_python(node, label, operands, exprs, defs, callable_id, keep, source)
            if refusal is None:
                self.callables[callable_id] = run
                break
            _C.unregister_callable(callable_id)
        else:
            raise RuntimeError(f"npugraph: {label} at {source} cannot be imported: {refusal}")
        if not keep:
            self.stored.add(node)
        elif is_symbolic(node.meta.get("val")):
            self.scalars[node] = self.convert(node.meta["val"])
        self.partitions.append(_C.Partition(node.name, label, source, "python", reason))

    def is_known_otherwise(self, node: fx.Node) -> bool:
        return node in self.scalars or node in self.stored or node in self.constants


def _label(node: fx.Node) -> str:
    target = node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", None) or str(target)
    return "".join(c if c.isalnum() or c == "_" else "_" for c in str(name))


def source_line(node: fx.Node) -> str:
    """``file.py:12 in forward`` of the user's line that the node came from, as far as torch recorded it."""
    trace = node.meta.get("stack_trace")
    return _last_frame(trace) if trace else ""


@functools.lru_cache(maxsize=4096)
def _last_frame(trace: str) -> str:
    frames = _FRAME.findall(trace)
    if not frames:
        return ""
    file, line, function = frames[-1]
    return f"{file}:{line} in {function}"
