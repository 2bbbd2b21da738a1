# SPDX-License-Identifier: Apache-2.0
"""The parts of an operator that Ascend IR has whole and the engine has no rule for:

    z = npu.npu_swiglu(y)    ->    SwiGlu(y) with the attribute _npugraph_parts, a graph: Split, Swish, Mul

A call of a composed operator is traced by itself (``npugraph.fx.decompose``), and the converters of ATen convert what
it calls. Of an operator of ATen, its converter says what is traced (``npugraph.ge.converters.computations``). Calls
that differ only in the tensors they read share one trace."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from npugraph.fx.corrections import correct_values
from npugraph.fx.decompose.composed import is_composed, run_kernel
from npugraph.fx.decompose.expand import expand
from npugraph.fx.decompose.parts import fake_mode_of
from npugraph.fx.schema import arguments_by_name, is_mutable, is_of_ascend, listed, written_arguments
from npugraph.fx.values import laid_out_as
from npugraph.ge import data_types, ir, proto
from npugraph.ge.converters import MissingConverters
from npugraph.ge.converters.computations import Computation
from npugraph.ge.converters.values import Number, Numbers
from npugraph.ge.fx.graph_forms import kernel_of
from npugraph.ge.fx.values import Symbolic, constant
from npugraph.ge.graph import Tensor
from npugraph.ge.normalise import UNFED, data_inputs, normalise

# The attribute of an operator with the graph of its parts (src/core/ge/import/inputs.h).
PARTS = "_npugraph_parts"
_FLOATS = {proto.DT_FLOAT, proto.DT_FLOAT16, proto.DT_BF16}


def _given(op: Any) -> dict[str, Any]:
    """The descriptors of the inputs that ``op`` has, by name."""
    return {desc.name: desc for desc, source in zip(op.input_desc, data_inputs(op), strict=True) if source}


def _attribute(op: Any, name: str) -> Any:
    """The value of an attribute; None if ``op`` leaves it at its default."""
    if name not in op.attr:
        return None
    return getattr(op.attr[name], op.attr[name].WhichOneof("value"))


def has_lengths_alone(op: Any) -> bool:
    """Whether keys that a ``FusedInferAttentionScore`` does not see lie behind the lengths of sequences, and nothing
    else is asked for."""
    given = _given(op)
    if given.keys() != {"query", "key0", "value0", "actual_seq_lengths_kv"} or given["query"].dtype not in _FLOATS:
        return False
    is_plain = not _attribute(op, "sparse_mode") and not _attribute(op, "softmax_lse_flag")
    is_of_one_type = len({given[name].dtype for name in ("query", "key0", "value0")}) == 1
    return is_plain and is_of_one_type and _attribute(op, "input_layout") in (None, b"BSH", b"BNSD", b"BSND")


def _has_groups_alone(op: Any, node: fx.Node) -> bool:
    """Whether groups of the rows of one tensor are multiplied with the matrices of another one, and nothing else is
    asked for."""
    given = _given(op)
    if given.keys() != {"x0", "weight0", "group_list"} or given["x0"].dtype not in _FLOATS:
        return False
    is_plain = not any(_attribute(op, name) for name in ("group_type", "act_type", "transpose_x"))
    is_one = _attribute(op, "split_item") in (2, 3) and _attribute(op, "group_list_type") in (0, 1)
    arguments = arguments_by_name(node.target, node.args, node.kwargs)
    ranks = [arguments[name][0].meta["val"].dim() for name in ("x", "weight")]
    result = data_types.to_proto(data_types.DataType(_attribute(op, "dtype")))
    is_of_one_type = given["x0"].dtype == given["weight0"].dtype == result
    return is_plain and is_one and is_of_one_type and ranks == [2, 3]


# Operators whose rules compute what the converters of ATen write, and of what those of Ascend do the operators for
# which the function is true.
_PARTLY_COMPUTED: Mapping[str, Callable[[Any, fx.Node], bool]] = {
    "FusedInferAttentionScore": lambda op, node: has_lengths_alone(op),
    "GroupedMatmul": _has_groups_alone,
    "MatMul": lambda op, node: False,
    "PromptFlashAttention": lambda op, node: False,
}


class Converted(NamedTuple):
    """A graph of the parts of a call, without its end. ``data`` has the ``Data`` for an operand of the call, by the
    place of the operand among the placeholders, and ``lists`` that for a list of sizes. ``results`` has the tensors for
    the outputs of the call's graph."""

    graph: Any  # GraphDef
    data: Mapping[int, str]
    lists: Mapping[int, str]
    results: tuple[Any, ...]


class Traced(NamedTuple):
    """The graph of a call, which has its operands as its placeholders and its results as its outputs. ``lists`` are
    lists of sizes that the operator has as inputs. Calls of ``of_host`` are those of the host's operators."""

    gm: fx.GraphModule
    lists: Sequence[Sequence[Any]] = ()
    of_host: frozenset[Any] = frozenset()


# Converts the graph of a call. Raises ``MissingConverters``.
Convert = Callable[[Traced], Converted]


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
        converted = self._converted(_key(node), lambda: Traced(alone(node)))
        if converted is None:
            return False
        _write(op, converted, [operands[operand] for operand in node.all_input_nodes], (), results)
        return True

    def add_traced(
        self, computation: Computation, node: fx.Node, values: Mapping[str, Any], size_lists: Mapping[str, Any]
    ) -> None:
        """Writes the parts of an operator that the converter of ``node`` has added. ``values`` has those of the results
        of the node, and ``size_lists`` the numbers of lists of sizes, both by tensor. Raises ``NotImplementedError`` if
        it has no parts."""
        made = [result for result in computation.results if result is not None]
        op = made[0].node
        lists = {name: size_lists[name] for name in dict.fromkeys(data_inputs(op)) if name in size_lists}
        wanted = [None if result is None else values.get(result.tensor) for result in computation.results]
        call = Operands(computation, node)
        described = map(_description, wanted)
        key = (computation.function, call.key, str(list(lists.values())), tuple(described))

        def trace() -> Traced:
            return Traced(call.trace(wanted), list(lists.values()), computation.calls)

        converted = self._converted(key, trace)
        if converted is None:
            raise NotImplementedError(f"a part of {op.type} has no converter")
        _write(op, converted, call.given, list(lists), list(computation.results))

    def _converted(self, key: Hashable, trace: Callable[[], Traced]) -> Converted | None:
        if key not in self._known:
            self.traced += 1
            try:
                self._known[key] = self._convert(trace())
            except MissingConverters:
                self._known[key] = None
        return self._known[key]


class Operands:
    """Those of a computation. ``given`` are the tensors and numbers of the graph among them, each once."""

    def __init__(self, computation: Computation, node: fx.Node) -> None:
        self._computation, self._node = computation, node
        lists = pytree.tree_map_only(
            Numbers, lambda leaf: leaf.parts, computation.args, is_leaf=lambda leaf: isinstance(leaf, Tensor)
        )
        self._leaves, self._spec = pytree.tree_flatten(lists, is_leaf=lambda leaf: isinstance(leaf, Tensor))
        by_name = {_name(leaf): leaf for leaf in self._leaves if isinstance(leaf, (Tensor, torch.SymInt))}
        self._places = {name: place for place, name in enumerate(by_name)}
        self.given = list(by_name.values())

    @property
    def key(self) -> Hashable:
        return str(self._spec), tuple(map(self._described, self._leaves))

    def _described(self, leaf: Any) -> Hashable:
        if isinstance(leaf, (Number, torch.SymInt)):
            return self._places[_name(leaf)], _name(leaf)
        if not isinstance(leaf, Tensor):
            return type(leaf), str(leaf)
        return self._places[_name(leaf)], leaf.dtype, str(leaf.symsize), leaf.order

    def trace(self, wanted: Sequence[Any]) -> fx.GraphModule:
        """The graph of what the function calls. Its results lie in memory as those of ``wanted`` that are tensors."""

        def call(*values: Any) -> Any:
            known = [
                values[self._places[_name(leaf)]] if isinstance(leaf, (Tensor, torch.SymInt)) else leaf
                for leaf in self._leaves
            ]
            args = pytree.tree_unflatten(known, self._spec)
            results = self._computation.function(*args)
            return tuple(results) if isinstance(results, (tuple, list)) else (results,)

        with torch.no_grad(), _values_of(self._node)[0].fake_mode:
            gm = make_fx(call)(*map(self._value, self.given))
            gm = _settled(expand(gm))
            correct_values(gm.graph)
            end = gm.graph.output_node()
            with gm.graph.inserting_before(end):
                pairs = zip(end.args[0], wanted, strict=True)
                end.args = (tuple(r if w is None or r is None else laid_out_as(gm.graph, r, w) for r, w in pairs),)
        gm.graph.eliminate_dead_code()
        return gm

    def _value(self, operand: Any) -> Any:
        if isinstance(operand, (Number, torch.SymInt)):
            return getattr(operand, "value", operand)
        dtype, sizes, order = data_types.to_torch(operand.dtype), operand.symsize, operand.order or range(operand.rank)
        x = torch.empty([sizes[dim] for dim in order], dtype=dtype, device=_values_of(self._node)[0].device)
        return x.permute([list(order).index(dim) for dim in range(len(sizes))])


def _name(operand: Any) -> str:
    """What tells operands apart."""
    if isinstance(operand, (Number, torch.SymInt)):
        return f"number {getattr(operand, 'value', operand)}"
    return operand.tensor


def _values_of(node: fx.Node) -> list[Any]:
    """The tensors that a call returns and reads."""
    values = pytree.tree_leaves([one.meta.get("val") for one in (node, *node.all_input_nodes)])
    return [value for value in values if isinstance(value, torch.Tensor)]


def _write(op: Any, converted: Converted, operands: Sequence[Any], lists: Sequence[str], results: list[Any]) -> None:
    """Writes parts into ``op``. ``operands`` are those of the call, ``lists`` the inputs that are lists of sizes.
    Raises ``NotImplementedError`` if an operand that the parts read is no input of ``op``."""
    parts = op.attr[PARTS].g
    parts.CopyFrom(converted.graph)
    places = {name: place for place, name in reversed(list(enumerate(data_inputs(op))))}
    by_name = {part.name: part for part in parts.op}
    for number, name in converted.data.items():
        operand = operands[number]
        if not isinstance(operand, Tensor) or operand.tensor not in places:
            raise NotImplementedError(f"its operand {operand!r} is no input of {op.type}")
        by_name[name].attr["index"].i = places[operand.tensor]
    for number, name in converted.lists.items():
        by_name[name].attr["index"].i = places[lists[number]]
    _add_end(parts, op, converted, results)
    normalise(parts)


def is_computed(op: Any, node: fx.Node) -> bool:
    """Whether the engine has a rule for ``op``, to which the converter of ``node`` has brought it."""
    if op.type in _PARTLY_COMPUTED and is_of_ascend(node.target):
        return _PARTLY_COMPUTED[op.type](op, node)
    return op.type in ir.computed_types()


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
    gm = _settled(gm)
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


def _settled(gm: fx.GraphModule) -> fx.GraphModule:
    return _without_writes(gm) if any(is_mutable(part.target) for part in gm.graph.nodes) else gm


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
