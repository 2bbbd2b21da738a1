# SPDX-License-Identifier: Apache-2.0
"""FX graph -> graph of GE: inputs become ``Data``, calls what their converters make of them, outputs ``NetOutput``."""

from __future__ import annotations

import dataclasses
import functools
import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch.utils import _pytree as pytree

from npugraph.fx.nodes import base_of
from npugraph.fx.schema import arguments_by_name, is_of_ascend, is_of_user, new_tensors, written_arguments
from npugraph.fx.streams.sections import Strands
from npugraph.fx.translate.importer import InputInfo
from npugraph.fx.translate.symbolic import bounds
from npugraph.fx.values import attribute, is_dense, is_row_major
from npugraph.ge import apis as ge
from npugraph.ge import attr, ir
from npugraph.ge.converters import Missing, MissingConverters, user_operators
from npugraph.ge.converters.registry import Converter, code_of
from npugraph.ge.converters.user_operators import OPERATOR
from npugraph.ge.converters.values import Late, Number, Numbers, size_at, typed
from npugraph.ge.data_types import DataType, TensorSpec
from npugraph.ge.fx.in_place import written_inputs
from npugraph.ge.fx.operator_parts import PARTS, Converted, OperatorParts, Traced, has_parts, is_computed
from npugraph.ge.fx.outputs import OutputPlan, plan_outputs
from npugraph.ge.fx.scopes import Scopes
from npugraph.ge.fx.values import (
    Call,
    Placement,
    Symbolic,
    calls_of,
    constant,
    device_of,
    is_number,
    not_of_ge,
    spec_of,
    texts,
)
from npugraph.ge.fx.views import check_apart, put_back, views_of
from npugraph.ge.graph import GeGraph, Tensor, dims_of
from npugraph.ge.normalise import DEVICE, data_inputs
from npugraph.log import logger
from npugraph.python_versions import add_note

aten = torch.ops.aten

# What the engine reads beyond Ascend IR (src/core/ge/import/inputs.h): of operators, ...
SOURCE, KIND, VALUE = "_npugraph_source", "_npugraph_kind", "_npugraph_value"
# ... of descriptors, ...
SIZES, STRIDES = "_npugraph_sizes", "_npugraph_strides"
# ... and of the graph: names of symbols, and the least and the largest value of each.
RANGES = "_npugraph_ranges"


@dataclasses.dataclass(frozen=True)
class Built:
    """The graph of an FX graph with ``num_inputs`` inputs. Its input ``i`` is input ``fed[i]`` of the FX graph.
    ``outputs`` makes the outputs of the FX graph of the results of the graph. ``origins`` has the nodes that operators
    were made for, by the names of the operators."""

    graph: GeGraph
    num_inputs: int
    fed: tuple[int, ...]
    outputs: OutputPlan
    origins: Mapping[str, fx.Node]

    @property
    def is_plain(self) -> bool:
        """Whether the graph has the inputs and the outputs of the FX graph as they are."""
        return len(self.fed) == self.num_inputs and self.outputs.is_plain

    def picker(self) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        """A function that returns the inputs of the graph among those of the FX graph."""
        places = self.fed
        if len(places) > 1:  # a loop of Python over hundreds of inputs takes longer
            return operator.itemgetter(*places)
        return lambda inputs: tuple(inputs[place] for place in places)


def build(
    gm: fx.GraphModule,
    name: str,
    inputs: Sequence[InputInfo],
    *,
    is_run: bool = False,
    is_file: bool = False,
    strands: Strands | None = None,
) -> Built:
    """Converts a functional graph of operators, with a ``copy_`` for each input that it writes, after
    ``correct_values``. ``inputs`` describes its placeholders in order. A graph that ``is_run`` consists of operators
    that the engine of this process computes. A graph that ``is_file`` has no host around it, which knows and computes
    numbers: numbers among its inputs that are no sizes of tensors, and those among its outputs, are its own.
    ``strands`` are those of ``read_scopes``. Raises ``MissingConverters`` with all nodes that cannot be converted."""
    built, missing = attempt(gm, name, inputs, is_run=is_run, is_file=is_file, strands=strands)
    if missing:
        raise MissingConverters(name, missing)
    return built


def attempt(
    gm: fx.GraphModule,
    name: str,
    inputs: Sequence[InputInfo],
    *,
    is_run: bool = False,
    is_file: bool = False,
    strands: Strands | None = None,
) -> tuple[Built, list[Missing]]:
    """The same with the nodes that cannot be converted. The graph has operators of type ``Missing`` for these."""
    builder = _Builder(gm, name, is_run, is_file, strands=strands)
    with builder.graph.context():
        built = builder.build(inputs)
    return built, builder.missing_in_order()


def convert_parts(traced: Traced, *, is_run: bool = True) -> Converted:
    """Converts the parts of a call, a graph with the results of the call as its outputs."""
    return _Builder(traced.gm, "parts", is_run, is_file=False, parts_of=traced).build_parts()


class _Builder:
    """Asks first all that the FX graph says: of its calls, and of its outputs. Then it adds the inputs, converts the
    calls in their order, and adds the end."""

    def __init__(
        self,
        gm: fx.GraphModule,
        name: str,
        is_run: bool,
        is_file: bool,
        *,
        parts_of: Traced | None = None,
        strands: Strands | None = None,
    ) -> None:
        """``parts_of`` says of a graph of parts how they were traced."""
        self.gm = gm
        self.parts_of = parts_of
        self.is_run = is_run
        self.is_file = is_file
        self.missing: dict[fx.Node, Missing] = {}
        self.placeholders = gm.graph.find_nodes(op="placeholder")
        self.device = device_of(gm.graph)
        self.placement = Placement(gm.graph, self.device)
        self.calls = calls_of(gm.graph, self.placement, parts_of.of_host if parts_of else ())
        self.positions = {node: position for position, node in enumerate(gm.graph.nodes)}
        self.plan = OutputPlan((), ()) if parts_of else self.planned_outputs()
        self.graph = GeGraph(name=name)
        self.values: dict[fx.Node, Any] = {}  # of nodes that are no numbers: a tensor, a list of tensors, or an object
        # Numbers that an operator has asked for, by kind and expression.
        self.numbers: dict[tuple[type, sympy.Expr], Tensor] = {}
        self.sizes: dict[sympy.Expr, tuple[fx.Node, int]] = {}  # symbolic sizes of inputs
        # Those in lists of sizes, with the number of the list and the place in it, and the inputs that are lists.
        self.listed: dict[sympy.Expr, tuple[int, int]] = {}
        self.lists: dict[int, Tensor] = {}
        self.size_symbols: set[sympy.Symbol] = set()  # of sizes and numbers that are inputs
        self.parts_of_sizes: set[sympy.Symbol] = set()  # of sizes of inputs that are no symbols themselves, and strides
        self.written: list[Any] = []  # OpDefs that write inputs
        self.origins: dict[str, fx.Node] = {}
        self.in_place = written_inputs(gm.graph, self.positions)
        self.operator_parts = OperatorParts(functools.partial(convert_parts, is_run=is_run))
        self.scopes = Scopes(strands)

    def planned_outputs(self) -> OutputPlan:
        end = self.gm.graph.output_node()
        try:
            outputs = pytree.tree_leaves(end.args[0], is_leaf=lambda leaf: leaf is None)
            return plan_outputs(outputs, self.placeholders, numbers_are_results=self.is_file)
        except NotImplementedError as refusal:
            self.note(end, str(refusal))
            return OutputPlan((), ())

    def missing_in_order(self) -> list[Missing]:
        return [self.missing[node] for node in self.gm.graph.nodes if node in self.missing]

    def build(self, inputs: Sequence[InputInfo]) -> Built:
        if self.device.type != "cpu":
            self.graph.attr[DEVICE].s = str(self.device).encode()
        written = {node.args[0] for node in self.gm.graph.find_nodes(op="call_function", target=aten.copy_.default)}
        logger.debug("compiler inputs: %s", [node.meta.get("val") for node in self.placeholders])
        logger.debug("before sym input optimization: %s", self.placeholders)
        fed = self.add_inputs(inputs, written)
        logger.debug("after sym input optimization: %s", [self.placeholders[place] for place in fed])
        self.add_calls()
        if self.gm.graph.output_node() not in self.missing:
            self.add_outputs()
        return Built(self.graph, len(inputs), fed, self.plan, self.origins)

    def build_parts(self) -> Converted:
        names = [InputInfo("user", node.name) for node in self.placeholders]
        end = self.gm.graph.output_node()
        with self.graph.context():
            fed = self.add_inputs(names, set())
            self.add_calls()
            results = fx.map_arg(end.args[0], self.value)
        if self.missing:
            raise MissingConverters(self.graph.name, self.missing_in_order())
        data = {place: self.data_of(self.placeholders[place]).node.name for place in fed}
        lists = {number: data.node.name for number, data in self.lists.items()}
        return Converted(self.graph.proto, data, lists, tuple(results))

    def data_of(self, node: fx.Node) -> Tensor:
        value = node.meta["val"]
        return self.numbers[type(value), value.node.expr] if isinstance(value, Symbolic) else self.values[node]

    def add_calls(self) -> None:
        dropped = {node for written in self.in_place for node in written.dropped}
        self.values |= {written.copy: self.values[written.placeholder] for written in self.in_place}
        for node in self.gm.graph.nodes:
            if node.op == "get_attr":
                self.add_attribute(node)
            elif node in self.calls and node not in dropped and not is_number(node.meta.get("val")):
                self.add_call(node)
        self.written += [self.values[written.copy].node for written in self.in_place]

    # Inputs

    def add_inputs(self, inputs: Sequence[InputInfo], written: set[Any]) -> tuple[int, ...]:
        self.note_sizes()
        self.add_ranges()
        fed: list[int] = []
        for place, (node, info) in enumerate(zip(self.placeholders, inputs, strict=True)):
            self.values[node] = node.meta.get("val")
            if not self.is_fed(node):
                continue
            try:
                self.add_input(node, info, len(fed), node in written)
            except NotImplementedError as refusal:
                self.note(node, str(refusal))
                self.values[node] = self.stand_ins(node)
            fed.append(place)
        return tuple(fed)

    def note_sizes(self) -> None:
        for number, sizes in enumerate(self.parts_of.lists if self.parts_of else ()):
            for place, size in enumerate(sizes):
                if isinstance(size, torch.SymInt):
                    self.listed.setdefault(size.node.expr, (number, place))
                    self.size_symbols |= size.node.expr.free_symbols
        for node in self.placeholders:
            value = node.meta.get("val")
            sizes: Sequence[Any] = value.size() if isinstance(value, torch.Tensor) and self.is_fed(node) else ()
            for dim, size in enumerate(sizes):
                if constant(size) is None:
                    self.sizes.setdefault(size.node.expr, (node, dim))
            if isinstance(value, torch.SymInt):
                self.size_symbols |= value.node.expr.free_symbols
            if sizes and value.layout is torch.strided and not is_row_major(value):
                strides = [stride.node.expr for stride in value.stride() if constant(stride) is None]
                self.parts_of_sizes |= {symbol for stride in strides for symbol in stride.free_symbols}
        for expr in self.sizes:
            self.size_symbols |= expr.free_symbols
            self.parts_of_sizes |= expr.free_symbols if not expr.is_Symbol else set()

    def add_ranges(self) -> None:
        """Says between which values the symbols of sizes are, as torch knows it."""
        symbols = sorted(self.size_symbols, key=lambda symbol: symbol.name)
        if not symbols:
            return
        values = [node.meta.get("val") for node in self.placeholders]
        numbers = [n for v in values for n in (v.size() if isinstance(v, torch.Tensor) else [v])]
        environment = next((number.node.shape_env for number in numbers if isinstance(number, torch.SymInt)), None)
        if environment is None:  # parts of an operator that reads sizes alone
            return
        ranges = self.graph.attr[RANGES]
        attr.ListInt([bound for symbol in symbols for bound in bounds(environment, symbol)]).write(ranges)
        ranges.list.s.extend(symbol.name.encode() for symbol in symbols)

    def is_fed(self, node: fx.Node) -> bool:
        """Whether the engine gets the input: tensors of its device and of the host, and numbers that no tensor has as a
        size, if they are used or if sizes are made of them."""
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and self.parts_of and not self.has_elements_read(node):
            return False
        if isinstance(value, torch.Tensor):
            return self.placement.is_input(value) and not node.meta.get("effect_token")
        if not isinstance(value, Symbolic) or value.node.expr in self.sizes or value.node.expr in self.listed:
            return False
        return self.is_file or bool(node.users) or value.node.expr in self.parts_of_sizes

    def has_elements_read(self, node: fx.Node) -> bool:
        """Whether more is read of an operand of parts than sizes that a list of sizes says."""
        exprs = {size.node.expr for size in node.meta["val"].size() if isinstance(size, torch.SymInt)}
        are_listed = exprs <= self.listed.keys()
        return any(not is_number(user.meta.get("val")) for user in node.users) or not are_listed

    def add_input(self, node: fx.Node, info: InputInfo, index: int, is_written: bool) -> None:
        value = node.meta["val"]
        spec = spec_of(value)
        is_on_host = not isinstance(value, torch.Tensor) or value.device.type == "cpu"
        placement = "CPU" if is_on_host else "NPU"
        make = ge.RefData if is_written else ge.Data
        name = _name_of_memory(value, index) if is_written and self.is_file else node.name
        with self.graph.fx_node(code_of(node)):
            data = make(index=index, dtype=spec.dtype, shape=spec.size, placement=placement, node_name=name)
        data.set_meta(spec)
        data.node.attr[SOURCE].s = info.source.encode()
        if info.kind != "user":
            data.node.attr[KIND].s = info.kind.encode()
        if isinstance(value, torch.Tensor):
            self.values[node] = data
            _write_sizes(data.desc, value)
            _write_texts(data.desc, STRIDES, () if is_row_major(value) else value.stride())
            return
        self.numbers[type(value), value.node.expr] = data
        for text in texts([value]) or ():
            data.node.attr[VALUE].s = text.encode()

    def add_attribute(self, node: fx.Node) -> None:
        value = attribute(self.gm, str(node.target))
        if isinstance(value, torch.Tensor):
            with self.graph.fx_node(code_of(node)):
                value = ge.Const(value)
        self.values[node] = value

    # Calls

    def add_call(self, node: fx.Node) -> None:
        before = len(self.graph.op)
        if node.target is operator.getitem:
            self.values[node] = self.item(node)
        else:
            self.values[node] = self.convert(node)
        self.scopes.add(node, self.graph.op[before:])
        if logger.isEnabledFor(logging.DEBUG):
            self.log_call(node)
        if node.target is aten.copy_.default:
            self.written.append(self.values[node].node)

    def log_call(self, node: fx.Node) -> None:
        """Says what a node and its arguments are for FX (meta) and for GE (npu)."""

        def pack(argument: Any) -> str:
            if isinstance(argument, (list, tuple)):
                return f"[{', '.join(map(pack, argument))}]"
            if not isinstance(argument, fx.Node):
                return str(argument)
            return f"Pack(meta:{argument.meta.get('val')} npu:{self.values.get(argument)})"

        logger.debug("target: %s", node.target)
        for place, argument in enumerate(node.args):
            logger.debug("input %d: %s", place, pack(argument))
        for name, argument in node.kwargs.items():
            logger.debug("input %s: %s", name, pack(argument))
        logger.debug("output %s", pack(node))

    def item(self, node: fx.Node) -> Any:
        """One of several results."""
        source: Any = node.args[0]
        place: Any = node.args[1]
        result = self.values[source][place]
        if result is not None or not node.users:
            return result
        self.note(source, f"its result {place} is not computed")
        return self.stand_ins(node)

    def convert(self, node: fx.Node) -> Any:
        """What the converter of a node returns: a tensor, or a list of tensors, in which None stands for a result
        that is not computed."""
        call, before = self.calls[node], len(self.graph.op)
        if call.converter is None:
            self.note(node, user_operators.why_none(node.target) if is_of_user(node.target) else "")
            return self.stand_ins(node)
        try:
            result = self.converted(call, call.converter)
            self.check_computed(node, before)
            self.take_written(call, before)
        except NotImplementedError as refusal:
            self.note(node, str(refusal))
            return self.stand_ins(node)
        except Exception as error:
            add_note(error, f"in the converter of {node.target}, at {call.line or node.name}")
            raise
        for op in self.graph.op[before:]:
            self.origins.setdefault(op.name, node)  # a number that the node asked for has its own one
            if call.line and SOURCE not in op.attr:
                op.attr[SOURCE].s = call.line.encode()
        result = _listed(result)
        self.describe(call, result)
        self.describe_sizes(node, result)
        return result

    def converted(self, call: Call, converter: Converter) -> Any:
        """What the converter of a call returns. Raises ``NotImplementedError`` if a graph of GE cannot have the call,
        its operands or its results."""
        if call.refusal:
            raise NotImplementedError(call.refusal)
        before, node = len(self.graph.op), call.node
        with self.graph.fx_node(call.code, call.stack):
            args = [self.operands(argument) for argument in node.args]
            kwargs = {name: self.operands(argument) for name, argument in node.kwargs.items()}
            if call.why_no_specs:
                raise NotImplementedError(call.why_no_specs)
            result = converter(*args, **kwargs, meta_outputs=call.specs)
            self.trace_computations(node, result)
        if is_of_user(node.target) or is_of_ascend(node.target):
            given = arguments_by_name(node.target, args, kwargs)
            self.add_computation(node, self.graph.op[before:], given, _as_list(_listed(result)))
        return result

    def trace_computations(self, node: fx.Node, result: Any) -> None:
        """Adds the parts that the converter of a node has stated. Parts of other operators do without those that call
        the host, because the host then computes the whole operator."""
        noted, self.graph.computations = self.graph.computations, []
        if not noted:
            return
        if self.parts_of and any(computation.calls for computation in noted):
            raise NotImplementedError("it is an operator of the host")
        pairs = zip(_as_list(_listed(result)), _as_list(_listed(node.meta.get("val"))), strict=True)
        values = {made.tensor: value for made, value in pairs if type(made) is Tensor}
        for computation in noted:
            self.operator_parts.add_traced(computation, node, values, self.graph.size_lists)

    def add_computation(self, node: fx.Node, added: list[Any], given: dict[str, Any], results: list[Any]) -> None:
        """Says of an operator that the engine has no rule for, among those that the converter of a node has added,
        what computes it: its parts if it is one of Ascend that has parts, or else the operator of the node. ``given``
        are the operands of the node by the names of its arguments."""
        without_rule = [op for op in added if OPERATOR not in op.attr and not is_computed(op, node)]
        if len(without_rule) == 1 and has_parts(node):
            made = [*new_tensors(node.target, results), *_written_outputs(without_rule[0], node.target, given)]
            if self.operator_parts.add(without_rule[0], node, self.values, made):
                return
        if is_of_user(node.target):
            user_operators.name_operator(node.target, added, given, results)
        elif len(without_rule) == 1:
            user_operators.call_host(node.target, without_rule[0], given, new_tensors(node.target, results))

    def check_computed(self, node: fx.Node, first: int) -> None:
        """Raises ``NotImplementedError`` if the engine of this process has to compute what a node became, the operators
        of the graph from ``first`` on, and does not."""
        if not self.is_run:
            return
        types = {op.type for op in self.graph.op[first:] if OPERATOR not in op.attr and PARTS not in op.attr}
        if unknown := types - ir.computed_types():
            raise NotImplementedError(f"the engine does not compute operators of type {', '.join(sorted(unknown))}")
        values = pytree.tree_leaves([operand.meta.get("val") for operand in (node, *node.all_input_nodes)])
        if any(isinstance(value, torch.Tensor) and value.is_complex() for value in values):
            raise NotImplementedError("the engine does not compute complex numbers")

    # Operators of users, and those that write arguments

    def take_written(self, call: Call, first: int) -> None:
        """Later nodes that read an argument which a node writes, what it views, or another view of that, get values in
        which the output of the name of that input is."""
        node = call.node
        if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace == "aten":
            return
        arguments = arguments_by_name(node.target, node.args, node.kwargs)
        given = _tensors_of(arguments)
        written = {tensor: name for tensor, name in given if name in written_arguments(node.target)}
        check_apart(given, written_arguments(node.target))
        for argument, name in written.items():
            value, base = self.written_value(argument, name, first), base_of(argument)
            if base.op == "placeholder":
                raise NotImplementedError(f"its argument {name}, which it writes, is memory from outside of the graph")
            if base is not argument:
                before = self.values[base]
                with self.graph.fx_node(call.code, call.stack):
                    value = _described_as(before, put_back(argument, name, before, value, self.operands))
            self.values[base] = value
        for base in dict.fromkeys(map(base_of, written)):
            self.refresh_views(base, node)

    def refresh_views(self, base: fx.Node, node: fx.Node) -> None:
        """Makes the views of a tensor again that nodes behind ``node``, which has written it, read."""
        for view in list(views_of(base)):
            readers = [user for one in (view, *views_of(view)) for user in one.users]
            if view in self.values and any(self.positions[reader] > self.positions[node] for reader in readers):
                self.values[view] = self.item(view) if view.target is operator.getitem else self.convert(view)

    def written_value(self, argument: fx.Node, name: str, first: int) -> Tensor:
        before = self.values[argument]
        for op in self.graph.op[first:]:
            for operand, desc in zip(data_inputs(op), op.input_desc, strict=False):
                names = [output.name for output in op.output_desc]
                if operand == before.tensor and desc.name in names:
                    return _described_as(before, Tensor(op, names.index(desc.name)))
        raise NotImplementedError(f"its argument {name} is written, and no output has the name of that input")

    def describe_sizes(self, node: fx.Node, result: Any) -> None:
        """Says the sizes and strides of new tensors of users' operators, which do not follow from Ascend IR."""
        for tensor, value in zip(_as_list(result), _as_list(_listed(node.meta.get("val"))), strict=False):
            is_made = isinstance(tensor, Tensor) and not isinstance(tensor, Late)
            if isinstance(value, torch.Tensor) and is_made and OPERATOR in tensor.node.attr:
                tensor.desc.shape.dim[:] = dims_of(tensor.symsize or ())
                _write_sizes(tensor.desc, value)
                _write_texts(tensor.desc, STRIDES, () if is_row_major(value) else value.stride())

    def operands(self, argument: Any) -> Any:
        """An argument of a node as converters take it."""
        if isinstance(argument, fx.Node):
            return self.value(argument)
        if not isinstance(argument, (list, tuple)):
            return argument
        parts = [self.operands(part) for part in argument]
        is_late = any(isinstance(part, Number) for part in parts) and all(map(_is_integer, parts))
        return Numbers(parts) if is_late else parts

    def value(self, node: fx.Node) -> Any:
        value = node.meta.get("val")
        if not is_number(value):
            made = self.values[node]
            if made is not None and not isinstance(made, (Tensor, list)):
                raise not_of_ge(made)
            return made
        known = constant(value)
        if known is not None:
            return known
        is_size = isinstance(value, torch.SymInt) and value.node.expr.free_symbols <= self.size_symbols
        return Number(value, functools.partial(self.number, node), is_size)

    def number(self, node: fx.Node) -> Tensor:
        """A number that only a run knows, from a size of an input if one is the same."""
        value = node.meta["val"]
        key = type(value), value.node.expr
        if key not in self.numbers:
            of_input, dim = self.sizes.get(value.node.expr, (None, 0))
            if of_input is not None:
                self.numbers[key] = self.size_of(of_input, dim)
            elif value.node.expr in self.listed:
                self.numbers[key] = self.number_in_list(*self.listed[value.node.expr])
            else:
                self.numbers[key] = self.convert(node)
        return self.numbers[key]

    def number_in_list(self, number: int, place: int) -> Tensor:
        if number not in self.lists:
            assert self.parts_of is not None
            size = [len(self.parts_of.lists[number])]
            self.lists[number] = ge.Data(index=0, dtype=DataType.DT_INT64, shape=size, placement="CPU")
        return typed(ge.Gather(self.lists[number], ge.Const(place)), DataType.DT_INT64, ())

    def size_of(self, node: fx.Node, dim: int) -> Any:
        return size_at(self.values[node], dim)

    # Results

    def describe(self, call: Call, result: Any) -> None:
        """Says what FX knows of the results of a call."""
        node, specs = call.node, call.specs
        value = node.meta.get("val")
        if isinstance(value, Symbolic) and result.dtype != DataType.DT_UNDEFINED:  # it has the type of a tensor
            specs = TensorSpec(result.dtype, ())
        results, specs = _as_list(result), _as_list(specs)
        if len(results) != len(specs) or (results == [None] and specs != [None]):
            raise RuntimeError(f"the converter returned {result!r}; the node has the results {value!r}")
        for index, (tensor, spec) in enumerate(zip(results, specs, strict=True)):
            if tensor is not None and spec is not None and not isinstance(tensor, Late):  # that describes itself
                tensor.set_meta(spec)
                tensor.desc.attr["_fx_tensor_name"].s = f"{node.name}-{node.target}.OUTPUT.{index}".encode()

    def note(self, node: fx.Node, reason: str = "") -> None:
        self.missing.setdefault(node, Missing(node, reason))

    def stand_ins(self, node: fx.Node) -> Any:
        """What later nodes get of a node that is not converted, so that those of them are found that cannot be
        either."""
        return pytree.tree_map(self.stand_in, _listed(node.meta.get("val")))

    def stand_in(self, value: Any) -> Any:
        if not isinstance(value, (torch.Tensor, *Symbolic)):
            return value
        op = self.graph.add_op("Missing")
        op.output_desc.add(name="y")
        try:
            dtype = TensorSpec.of(value).dtype
        except RuntimeError:  # GE does not have it
            dtype = DataType.DT_FLOAT
        return typed(Tensor(op), dtype, getattr(value, "shape", ()))

    # Outputs

    def add_outputs(self) -> None:
        results = [self.value(output) for output in self.plan.results]
        end = ge.NetOutput(results, self.plan.specs, dependencies=self.written)
        for desc, output in zip(end.input_desc, self.plan.results, strict=True):
            value = output.meta["val"]
            if isinstance(value, torch.Tensor):
                _write_texts(desc, STRIDES, value.stride() if is_dense(value) and not is_row_major(value) else ())


def _name_of_memory(value: torch.Tensor, index: int) -> str:
    """The name of an input of a file that the graph writes: how it lies in memory, and its number."""
    geometry = (value.size(), value.stride(), [value.storage_offset()])
    known = [[-1 if (number := constant(n)) is None else number for n in numbers] for numbers in geometry]
    return "_".join(["RefData", *("_".join(map(str, numbers)) for numbers in known), str(index)])


def _write_sizes(desc: Any, value: torch.Tensor) -> None:
    """Names the sizes of a tensor in its descriptor, if some are unknown."""
    _write_texts(desc, SIZES, value.size() if None in map(constant, value.size()) else ())


def _write_texts(desc: Any, name: str, numbers: Sequence[Any]) -> None:
    """Writes numbers into an attribute of a descriptor, as a list of texts. Without numbers, or if the engine has no
    words for them, it is left out."""
    if numbers and (words := texts(numbers)):
        attr.ListStr(words).write(desc.attr[name])


def _written_outputs(op: Any, target: Any, given: Mapping[str, Any]) -> list[Tensor]:
    """The outputs of ``op`` that are the arguments which ``target`` writes, with their new values."""
    inputs = {tensor: desc.name for tensor, desc in zip(data_inputs(op), op.input_desc, strict=False)}
    outputs = [desc.name for desc in op.output_desc]
    return [Tensor(op, outputs.index(inputs[given[name].tensor])) for name in written_arguments(target)]


def _tensors_of(arguments: Mapping[str, Any]) -> list[tuple[fx.Node, str]]:
    """The tensors among the arguments of a call, each with the name of its argument. One that is given twice is there
    twice."""
    pairs = [(leaf, name) for name, value in arguments.items() for leaf in pytree.tree_leaves(value)]
    return [(leaf, name) for leaf, name in pairs if isinstance(leaf, fx.Node) and not is_number(leaf.meta.get("val"))]


def _described_as(other: Tensor, tensor: Tensor) -> Tensor:
    """``tensor``, with the element type, the sizes and the layout of ``other``."""
    typed(tensor, other.dtype, other.symsize or ())
    tensor.order = other.order
    return tensor


def _is_integer(part: Any) -> bool:
    return isinstance(part, int) or (isinstance(part, Number) and isinstance(part.value, torch.SymInt))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
