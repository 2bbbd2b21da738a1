# SPDX-License-Identifier: Apache-2.0
"""FX graph -> C++ graph.

Each node becomes an ATen node or a symbolic scalar. If neither is possible, it becomes a Python task of exactly that
node.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import sympy
import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import CallMethodKey, ConvertIntKey, resolve_unbacked_bindings
from torch.utils import _pytree as pytree

from npugraph import _C
from npugraph.fx.corrections import correct_values
from npugraph.fx.schema import is_mutable
from npugraph.fx.source_lines import source_line
from npugraph.fx.streams.stream_marks import is_mark
from npugraph.fx.translate.nested import flow_of, own_copy
from npugraph.fx.translate.python_node import Objects, make_callable
from npugraph.fx.translate.symbolic import Expr, SymbolicConverter, Unsupported, is_nested_int, is_symbolic
from npugraph.fx.values import attribute, is_strided

if TYPE_CHECKING:
    from npugraph.fx.streams.sections import Strands


@dataclasses.dataclass(frozen=True)
class InputInfo:
    """The front end's knowledge of one graph input: its kind ("user", "parameter", "buffer" or "static") and Dynamo's
    source."""

    kind: str
    source: str


@dataclasses.dataclass
class Imported:
    """The C++ graph of the FX graph ``gm``, and the objects that must live as long as it runs."""

    gm: fx.GraphModule
    graph: Any
    partitions: list[Any]
    callables: dict[int, Callable[..., Any]]  # of Python nodes, by the number under which they are registered
    objects: Objects | None  # None when no value of the graph needs them
    object_inputs: list[tuple[int, str]]  # inputs that no task can carry: position, name
    object_outputs: list[tuple[int, str]]  # the same for outputs
    names_places: bool  # whether it fixes offsets in storages of inputs; calls with other offsets raise InputElsewhere
    guards: list[Any]  # what Dynamo tests of sizes and numbers of inputs, as far as the graph has their symbols
    nested: list[Any] = dataclasses.field(default_factory=list)  # artifacts from NestedCompiler


@dataclasses.dataclass(frozen=True)
class NestedCompiler:
    """How the graphs that control flow runs become Programs. ``prepare`` changes such a graph in place before the
    import. ``compile`` makes an ``Artifact`` of the given name from the imported graph."""

    prepare: Callable[[fx.GraphModule], fx.GraphModule]
    compile: Callable[[Imported, str], Any]


@dataclasses.dataclass(frozen=True)
class Definition:
    """A symbol that a node defines: as the core describes it, and as a function of the node's real result."""

    core: Any
    read: Callable[[Any], Any]
    only_in_python: bool = False  # the core cannot read it
    symbol: Any = None
    must_be: sympy.Expr | None = None  # the value that the program assumes for the symbol


# Checks of facts that compiling has already established: they have no results and never fail afterwards.
SETTLED_CHECKS = {
    torch.ops.aten.sym_constrain_range.default,
    torch.ops.aten.sym_constrain_range_for_size.default,
    torch.ops.aten._assert_tensor_metadata.default,
}


def import_graph(
    gm: fx.GraphModule,
    name: str,
    inputs: Sequence[InputInfo],
    strands: Strands | None = None,
    nested_compiler: NestedCompiler | None = None,
) -> Imported:
    """Imports a functional graph of operators. ``inputs`` describes its placeholders in order. ``strands`` is the
    result of ``mark_sections``. Without ``nested_compiler`` control flow runs in Python."""
    correct_values(gm.graph)
    importer = _Importer(gm, name, nested_compiler)
    importer.note_given(node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder"))
    if strands is not None:
        importer.core.set_sections([section.as_tuple() for section in strands.sections])
    for node in gm.graph.nodes:
        if strands is not None and node.op == "call_function":
            importer.core.enter_section(node.meta.get("section", 0))
        importer.add(node, inputs)
    return importer.finish()


class _Importer:
    def __init__(self, gm: fx.GraphModule, name: str, nested_compiler: NestedCompiler | None) -> None:
        self.gm = gm
        self.name = name
        self.nested_compiler = nested_compiler
        self.nested: list[Any] = []
        self.outer: _Importer | None = None  # the importer of the graph that runs this one
        self.convert = SymbolicConverter()
        self.core = _C.FxImporter(name, self.convert)
        self.partitions: list[Any] = []
        self.callables: dict[int, Callable[..., Any]] = {}
        self.objects = Objects()
        self.object_inputs: list[tuple[int, str]] = []
        self.object_outputs: list[tuple[int, str]] = []
        self.constants: dict[fx.Node, Any] = {}
        self.stored: set[fx.Node] = set()
        self.scalars: dict[fx.Node, Any] = {}
        self.given: set[str] = set()  # symbols that are inputs, or sizes of inputs
        self.owed: list[Definition] = []  # definitions whose checks wait for other symbols
        self.sourced: set[str] = set()  # symbols that an input or an earlier node defines
        self.num_inputs = 0
        self.shape_env: Any = None

    def finish(self) -> Imported:
        for name, (kind, _) in self.convert.symbols.items():
            self.core.add_symbol(name, kind, *self.convert.bounds(name, self.shape_env))
        names_places = self.core.names_places()
        guards = [] if self.outer else self.convert.guards(self.shape_env)
        return Imported(
            gm=self.gm,
            graph=self.core.finish(),
            partitions=self.partitions,
            callables=self.callables,
            objects=self.objects if self.stored else None,
            object_inputs=self.object_inputs,
            object_outputs=self.object_outputs,
            names_places=names_places,
            guards=guards,
            nested=self.nested,
        )

    def add(self, node: fx.Node, inputs: Sequence[InputInfo]) -> None:
        if node.op == "placeholder":
            self.add_placeholder(node, inputs[self.num_inputs])
            self.num_inputs += 1
        elif node.op == "get_attr":
            self.add_attribute(node)
        elif node.op == "output":
            self.add_outputs(pytree.tree_leaves(node.args[0], is_leaf=lambda x: x is None))
        else:
            self.add_call(node)

    def note_given(self, inputs: Iterable[Any]) -> None:
        for value in inputs:
            self.given |= _symbols_among([value, *getattr(value, "shape", ())])

    def add_placeholder(self, node: fx.Node, info: InputInfo) -> None:
        value = node.meta.get("val")
        self.note_shape_env(value)
        self.sourced |= _symbols_among([value, *getattr(value, "shape", ())])
        if isinstance(value, torch.Tensor) and not node.meta.get("effect_token"):
            if self.outer is None and value.layout is torch.strided:
                self.sourced |= self.convert.name_sizes(value, self.given)
            self.core.add_input(node, value, info.kind, info.source)
        elif (is_symbolic(value) and not is_nested_int(value)) or isinstance(value, (bool, int, float)):
            self.scalars[node] = self.input_scalar(value)
            self.core.add_scalar_input(node, self.scalars[node], info.source)
        else:
            self.object_inputs.append((self.num_inputs, node.name))
            self.stored.add(node)

    def input_scalar(self, value: Any) -> Any:
        """The Expr of a scalar input: an expression of symbols that inputs give, else a new symbol."""
        if is_symbolic(value) and {symbol.name for symbol in value.node.expr.free_symbols} - self.given:
            return Expr.symbol(*self.convert.define(value))
        try:
            return self.convert(value)
        except Unsupported:
            return Expr.symbol(*self.convert.define(value))

    def add_outputs(self, outputs: Sequence[Any]) -> None:
        self.object_outputs = [(i, node.name) for i, node in enumerate(outputs) if node in self.stored]
        self.core.add_outputs([None if node in self.stored else node for node in outputs])

    def add_attribute(self, node: fx.Node) -> None:
        value = attribute(self.gm, node.target)
        if isinstance(value, torch.Tensor):
            self.core.add_constant(node, value, node.meta.get("derived", False))
        else:
            self.constants[node] = value

    def add_call(self, node: fx.Node) -> None:
        value = node.meta.get("val")
        self.note_shape_env(value)
        if node.target in SETTLED_CHECKS or is_mark(node):
            return
        if node.target is operator.getitem and self.core.bind_item(node, node.args[0], node.args[1]):
            return
        reason = f"{node.target} is not an ATen operator"
        defines: list[Definition] = []
        try:
            defines = self.definitions(node)
            if not defines and (is_symbolic(value) or isinstance(value, (bool, int, float))):
                self.scalars[node] = self.convert(value)
                self.core.bind_scalar(node, self.scalars[node])
                return
            if any(define.only_in_python for define in defines):
                reason = "a size of its result follows from a symbol by computation"
            elif isinstance(node.target, torch._ops.OpOverload):
                reason = self.core.add_operator(node, [define.core for define in defines], source_line(node))
        except Unsupported as unsupported:
            reason = f"symbolic expression {unsupported}"
            if is_symbolic(value):
                defines = [self.unknown_scalar(value)]
        if reason is not None:
            self.add_python(node, defines, reason)
        elif is_symbolic(value) or any(define.must_be is not None for define in defines):
            self.scalars[node] = self.convert(value)
        self.owed += [define for define in defines if define.must_be is not None]
        self.add_checks(node)

    def add_checks(self, node: fx.Node) -> None:
        """Adds the checks of those symbols whose assumed value is known from this node on."""
        for define in [define for define in self.owed if self.is_known(define.must_be)]:
            self.owed.remove(define)
            wanted = self.convert.evaluated(define.must_be)
            message = (
                f"{operator_name(node)}: a size or number is not {wanted}, which other operations of the program need"
            )
            self.core.add_check(Expr.make("eq", [define.symbol, wanted]), message, source_line(node))

    def unknown_scalar(self, value: Any) -> Definition:
        """Makes a new symbol for a scalar whose expression the core does not know. Its node defines the symbol."""
        name, kind = self.convert.define(value)
        return Definition(_C.SymbolDef(name, kind, 0, -1), lambda result: result)

    def note_shape_env(self, value: Any) -> None:
        if self.shape_env is None and is_symbolic(value):
            self.shape_env = value.node.shape_env
        elif self.shape_env is None and isinstance(value, torch.Tensor):
            self.shape_env = getattr(getattr(value, "fake_mode", None), "shape_env", None)

    def definitions(self, node: fx.Node) -> list[Definition]:
        """The symbols that the node defines."""
        bindings = node.meta.get("unbacked_bindings")
        has_new_sizes = torch.Tag.dynamic_output_shape in getattr(node.target, "tags", ())
        if not bindings and has_new_sizes and self.outer is not None:
            return self.new_sizes(node)  # tracing a branch or body anew has dropped the bindings
        if not bindings:
            # A number that the caller gave in a tensor has a symbol from the start.
            reads = node.target is torch.ops.aten._local_scalar_dense.default
            given = _symbols_among([node.meta["val"]]) - self.sourced if reads else ()
            return [self.definition(node.meta["val"].node.expr, ()) for _ in given]
        found = []
        for symbol, path in (resolve_unbacked_bindings(self.shape_env, bindings) or {}).items():
            taken_for = self.shape_env.replace(symbol)
            if self.is_known(taken_for):
                # Numbers need a check. Sizes of results are checked by the task that returns them.
                is_number = (_place(path) or (0, 0))[1] < 0
                found += [self.definition(symbol, path, taken_for)] if is_number else []
            elif isinstance(taken_for, sympy.Symbol):
                found.append(self.definition(taken_for, path))
            else:
                self.convert.name(taken_for, symbol)
                found.append(self.definition(symbol, path, taken_for))
        return found

    def is_known(self, expr: sympy.Expr) -> bool:
        """Whether inputs and earlier nodes give the value of ``expr``."""
        return all(symbol.name in self.sourced for symbol in expr.free_symbols)

    def definition(self, symbol: Any, path: tuple[Any, ...], must_be: sympy.Expr | None = None) -> Definition:
        expr = self.convert.symbol(symbol)
        self.sourced.add(symbol.name)
        kind = self.convert.symbols[symbol.name][0]
        place = _place(path)
        result, dim = place or (0, -1)
        read = functools.partial(_get, path)
        core = _C.SymbolDef(symbol.name, kind, result, dim)
        return Definition(core, read, only_in_python=place is None, symbol=expr, must_be=must_be)

    def new_sizes(self, node: fx.Node) -> list[Definition]:
        """Sizes of a Python node's results that are symbols without a definition. The node defines them, although
        nothing says so."""
        found = []
        for i, leaf in enumerate(pytree.tree_leaves(node.meta.get("val"), is_leaf=lambda x: x is None)):
            for dim, size in enumerate(leaf.shape if isinstance(leaf, torch.Tensor) else ()):
                for name in _symbols_among([size]) - self.sourced:
                    found.append(Definition(_C.SymbolDef(name, _C.ScalarKind.int, i, dim), _SizeReader(i, dim)))
                    self.sourced.add(name)
        return found

    def add_python(self, node: fx.Node, defines: Sequence[Definition], reason: str) -> None:
        defines = [*defines, *self.new_sizes(node)]
        operands = [n for n in node.all_input_nodes if not self.is_known_otherwise(n)]
        stored = [n for n in node.all_input_nodes if n in self.stored]
        constants = {n: self.constants[n] for n in node.all_input_nodes if n in self.constants}
        # A task gets only those scalars whose value is not known yet.
        known = {n: self.scalars[n] for n in node.all_input_nodes if n in self.scalars}
        scalars = [n for n, expr in known.items() if expr.op != "constant"]
        constants |= {n: _C.expr_value(expr) for n, expr in known.items() if expr.op == "constant"}
        source = next(filter(None, map(source_line, (node, *node.users, *node.all_input_nodes))), "")
        label = _label(node)
        mutates = is_mutable(node.target) or any(map(_has_writes, constants.values()))
        readers = [define.read for define in defines]
        exprs = [self.scalars[n] for n in scalars]
        nested = None
        try:
            nested = self.nest(node, operands, exprs)
        except Unsupported as unsupported:
            reason = f"{reason}, and cannot be a task: {unsupported}"
        # Graphs that have become Programs name no places.
        from_storage = nested is None and any(map(_counts_from_storage, constants.values()))
        # torch records no value for results that are neither tensors nor numbers.
        for keep in (True, False) if node.meta.get("val") is not None or not node.users else (False,):
            run = make_callable(node, operands, scalars, constants, self.objects, stored, keep, readers)
            callable_id = _C.register_callable(run)
            if nested is not None:
                nested(callable_id)
            defs = [define.core for define in defines]
            refusal = self.core.add_python(
                node, label, operands, exprs, defs, callable_id, keep, nested is not None, mutates, from_storage, source
            )
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
        if nested is None and node.target is not operator.getitem:  # a getitem belongs to the node that it reads
            self.partitions.append(_C.Partition(node.name, operator_name(node), source, "python", reason))

    def is_known_otherwise(self, node: fx.Node) -> bool:
        return node in self.scalars or node in self.stored or node in self.constants

    def nest(self, node: fx.Node, operands: Sequence[fx.Node], exprs: list[Any]) -> Callable[[int], None] | None:
        """Compiles the graphs that a call of control flow runs. ``exprs`` are the scalars of its task; the scalars that
        only the graphs need are appended. Returns a function that makes a registered callable a task that runs the
        graphs, or None if ``node`` is no such call. Raises ``Unsupported``."""
        flow = flow_of(node) if self.nested_compiler is not None else None
        if flow is None:
            return None

        def place(value: Any) -> tuple[str, Any]:
            if isinstance(value, fx.Node) and value not in self.scalars:
                tensor = value.meta.get("val")
                if value not in operands or not is_strided(tensor):
                    raise Unsupported(f"{value.name} is no dense tensor")
                return "tensor", operands.index(value)
            return place_of_number(self.scalars[value] if isinstance(value, fx.Node) else self.convert(value))

        def place_of_number(expr: Any) -> tuple[str, Any]:
            if expr.op == "constant":
                return "constant", _C.expr_value(expr)
            exprs.append(expr)
            return "scalar", len(exprs) - 1

        predicate = place(flow.predicate)
        if predicate[0] == "tensor" and flow.predicate.meta["val"].dtype != torch.bool:
            raise Unsupported("its predicate is no boolean")
        parts, artifacts, partitions = [], [], []
        for part in flow.parts:
            name = f"{self.name}.{part.graph.target}"
            places = [place(value) for value in part.inputs]
            imported, free = self.import_part(self.constants[part.graph], name)
            places += [place_of_number(self.known(symbol)) for symbol in free]
            artifact = self.nested_compiler.compile(imported, name)
            if artifact.core.writes_inputs():
                raise Unsupported(f"{part.graph.target} writes its arguments")
            parts.append((artifact.core, places))
            artifacts.append(artifact)
            partitions += imported.partitions
        self.nested += artifacts
        self.partitions += partitions
        return functools.partial(
            _C.register_nested,
            kind=flow.kind,
            parts=parts,
            predicate=predicate,
            carried=flow.carried,
            sliced=flow.sliced,
            keeps_turns=flow.keeps_turns,
        )

    def import_part(self, gm: fx.GraphModule, name: str) -> tuple[Imported, list[sympy.Symbol]]:
        """Imports a graph that a call runs. Also returns the symbols of the outer graph that it takes as inputs behind
        its own. Raises ``Unsupported``."""
        gm = self.nested_compiler.prepare(own_copy(gm))
        correct_values(gm.graph)
        importer = _Importer(gm, name, self.nested_compiler)
        importer.outer = self
        placeholders = gm.graph.find_nodes(op="placeholder")
        inputs = [InputInfo("user", node.name) for node in placeholders]
        importer.note_given(node.meta.get("val") for node in placeholders)
        for node in gm.graph.nodes:
            importer.add(node, inputs)
        free = [
            symbol
            for symbol_name, (_, symbol) in importer.convert.symbols.items()
            if symbol is not None and symbol_name not in importer.sourced
        ]
        for symbol in free:
            importer.core.add_scalar_input(symbol, importer.convert.symbol(symbol), symbol.name)
        imported = importer.finish()
        if imported.objects is not None or imported.object_inputs:
            raise Unsupported(f"{name} works on values that are neither tensors nor numbers")
        if imported.names_places:
            raise Unsupported(f"{name} names places of storages")
        return imported, free

    def known(self, symbol: sympy.Symbol) -> Any:
        """Expr of a symbol whose value is known before the node that is being imported. Raises ``Unsupported`` for
        other symbols."""
        if self.outer is None and symbol.name not in self.sourced:
            raise Unsupported(f"{symbol} is not known before")
        return self.convert.symbol(symbol)


@dataclasses.dataclass(frozen=True)
class _SizeReader:
    """Reads one size of one of a node's results."""

    result: int
    dim: int

    def __call__(self, value: Any) -> int:
        return pytree.tree_leaves(value, is_leaf=lambda x: x is None)[self.result].shape[self.dim]


def _counts_from_storage(value: object) -> bool:
    """Whether ``value`` is a graph that names a place by its offset in a storage."""
    calls = [node for node in _nodes(value) if "as_strided" in str(node.target)]
    return any(len(node.args) > 3 or "storage_offset" in node.kwargs for node in calls)


def _has_writes(value: object) -> bool:
    """Whether ``value`` is a graph with operators that write, perhaps its arguments."""
    return any(is_mutable(node.target) for node in _nodes(value))


def _nodes(value: object) -> Iterator[fx.Node]:
    """The nodes of a graph and of the graphs in it; none if ``value`` is no graph."""
    for module in value.modules() if isinstance(value, fx.GraphModule) else ():
        if isinstance(module, fx.GraphModule):
            yield from module.graph.nodes


def _symbols_among(values: Sequence[Any]) -> set[str]:
    """The names of those values that are just a symbol."""
    exprs = [value.node.expr for value in values if is_symbolic(value)]
    return {expr.name for expr in exprs if isinstance(expr, sympy.Symbol)}


def _get(path: tuple[Any, ...], result: Any) -> Any:
    return pytree.key_get(result, path)


def _place(path: tuple[Any, ...]) -> tuple[int, int] | None:
    """The place of a symbol in a node's result: the number of the tensor or scalar, and the dimension, -1 for the value
    itself. None for a path of another form."""
    result, dim = 0, -1
    for key in path:
        if isinstance(key, pytree.SequenceKey) and key is path[0]:
            result = key.idx
        elif isinstance(key, pytree.SequenceKey):
            dim = key.idx
        elif isinstance(key, ConvertIntKey) or (isinstance(key, CallMethodKey) and key.name in ("size", "item")):
            continue
        else:
            return None
    return result, dim


def operator_name(node: fx.Node) -> str:
    """The operator that a node calls: ``aten.add.Tensor``, ``aten.mm`` for a default overload, ``cond``. For a
    higher-order operator that wraps another operator, the name of the wrapped one."""
    target: Any = node.target
    if isinstance(target, torch._ops.HigherOrderOperator):
        target = next((arg for arg in node.args if isinstance(arg, torch._ops.OperatorBase)), target)
    if isinstance(target, torch._ops.OpOverload):
        return str(target).removesuffix(".default")
    return target if isinstance(target, str) else getattr(target, "__name__", None) or str(target)


def _label(node: fx.Node) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in operator_name(node))
