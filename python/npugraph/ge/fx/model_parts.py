# SPDX-License-Identifier: Apache-2.0
"""The parts of operators of a model that does not have them. The rows of the converters, read backwards, say which
operator of torch each operator of Ascend IR stands for:

    SwiGlu(x) [dim=-1]    ->    npu.npu_swiglu(x, -1)

The sizes and types of its operands are those that whoever made the model has written beside each result (``_meta``)."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator
from typing import Any

import sympy
import torch
from torch import fx
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, PythonMod
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from npugraph.fx.schema import listed, written_arguments
from npugraph.ge import data_types, ir
from npugraph.ge.converters import ascend_rows, ascend_writes
from npugraph.ge.converters.table import RESULT_TYPE, Row, row_of_ascend, schema_of
from npugraph.ge.converters.user_operators import OPERATOR
from npugraph.ge.fx.graph import convert_parts
from npugraph.ge.fx.graph_forms import form_of
from npugraph.ge.fx.operator_parts import PARTS, OperatorParts, has_lengths_alone, has_parts
from npugraph.ge.graph import GeGraph, Tensor
from npugraph.ge.normalise import data_inputs

# What functions convert, as rows: they say the usual calls.
_OF_FUNCTIONS = """\
npu.npu_fused_infer_attention_score.default: FusedInferAttentionScore key=[key] value=[value] *
npu.npu_incre_flash_attention.default: IncreFlashAttention key=[key] value=[value] *
npu.npu_moe_finalize_routing.default: MoeFinalizeRoutingV2 expanded_x=expanded_permuted_rows \
expanded_row_idx=expanded_src_to_dst_row x1=skip1 x2=skip2 expert_idx=export_for_source_row *
npu.npu_quant_matmul.default: QuantBatchMatmulV3 dtype=meta_outputs.dtype *
npu.npu_rotary_mul.default: RotaryMul x=input *
"""
_TYPE_ARGUMENTS = ("dst_type", "dtype", "output_dtype", "y_dtype", "act_quant_type")
_NAMES = {"FloorDiv": FloorDiv, "Max": Max, "Min": Min, "Mod": Mod, "PythonMod": PythonMod}
_OPERATORS = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul},
    **{ast.FloorDiv: FloorDiv, ast.Mod: Mod},
}
_HINT = 64  # of unknown sizes; they are taken as equal where an operator needs it


def add_parts(graph: GeGraph) -> tuple[int, list[str]]:
    """Adds parts to the operators that the engine has no rule for, where they have none. Returns the number of
    operators that have got them, and for each other one a line that says why not."""
    adder = _Adder(graph)
    missing = [op for op in graph.op if not _is_computed(op) and not {PARTS, OPERATOR} & set(op.attr)]
    refused = []
    for op in missing:
        try:
            adder.add(op)
        except NotImplementedError as refusal:
            refused.append(f"operator {op.name!r} of type {op.type}: {refusal}")
    return len(missing) - len(refused), refused


def _is_computed(op: Any) -> bool:
    return has_lengths_alone(op) if op.type == "FusedInferAttentionScore" else op.type in ir.computed_types()


def _rows_of(op_type: str) -> Iterator[Row]:
    for text in (*ascend_rows.ROWS, *ascend_writes.ROWS, *_OF_FUNCTIONS.splitlines()):
        if text.split()[1] == op_type and schema_of(text.partition(":")[0]) is not None:
            yield row_of_ascend(text)


class _Adder:
    def __init__(self, graph: GeGraph) -> None:
        self._producers = {op.name: op for op in graph.op}
        self._symbols: dict[str, Any] = {}
        self._shapes = ShapeEnv()
        self._fakes = FakeTensorMode(shape_env=self._shapes)
        self._parts = OperatorParts(convert_parts)

    def add(self, op: Any) -> None:
        """Adds the parts of an operator. Raises ``NotImplementedError`` if nobody knows them."""
        reason = "no operator of torch_npu is known to stand for it"
        for row in _rows_of(op.type):
            try:
                return self._add(op, row)
            except NotImplementedError as refusal:
                reason = str(refusal)
        raise NotImplementedError(reason)

    def _add(self, op: Any, row: Row) -> None:
        graph = fx.Graph()
        operands: dict[fx.Node, Tensor] = {}

        def placeholder(tensor: str) -> fx.Node:
            for node, operand in operands.items():
                if operand.tensor == tensor:
                    return node
            name, _, index = tensor.rpartition(":")
            node = graph.placeholder(f"x{len(operands)}")
            operands[node] = Tensor(self._producers[name], int(index))
            node.meta["val"] = self._fake(operands[node])
            return node

        space, name, overload = row.target.split(".")
        target = form_of(getattr(getattr(getattr(torch.ops, space), name), overload))
        call = graph.call_function(target, (), _arguments(op, row, placeholder))
        if not has_parts(call):
            raise NotImplementedError(f"{row.target} reads values, which only a process with torch computes")
        kwargs = fx.map_arg(call.kwargs, lambda node: node.meta["val"])
        try:
            with torch.no_grad(), self._fakes:
                call.meta["val"] = target(**kwargs)
        except Exception as error:  # whatever the operator says of operands that it does not take
            raise NotImplementedError(f"{row.target} does not take its operands: {error}") from error
        if not self._parts.add(op, call, operands, _results(op, row, call)):
            raise NotImplementedError(f"a part of {row.target} has no converter")

    def _fake(self, tensor: Tensor) -> torch.Tensor:
        dtype = data_types.to_torch(tensor.dtype)
        sizes = self._sizes(tensor)
        with self._fakes:
            return torch.empty(sizes, dtype=dtype)

    def _sizes(self, tensor: Tensor) -> list[Any]:
        desc = tensor.desc
        if "_meta" in desc.attr:
            text = re.findall(r"\[.*\]", desc.attr["_meta"].s.decode())[0]
            return [self._size(_expression(size)) for size in _list(text)]
        for place, described in enumerate(tensor.node.input_desc):
            if described.name == desc.name:  # the operator writes this input
                name, _, index = data_inputs(tensor.node)[place].rpartition(":")
                return self._sizes(Tensor(self._producers[name], int(index)))
        if not desc.shape.dim and tensor.node.type not in ("Const", "Constant"):
            raise NotImplementedError(f"the model does not say the sizes of its operand {tensor.tensor}")
        names = [f"unknown_{len(self._symbols)}_{dim}" for dim in range(len(desc.shape.dim))]
        return [self._symbol(n) if size < 0 else size for n, size in zip(names, desc.shape.dim, strict=True)]

    def _size(self, expression: Any) -> Any:
        if expression.is_Integer:
            return int(expression)
        values = {symbol: self._symbol(symbol.name) for symbol in expression.free_symbols}
        return sympy_interp(PythonReferenceAnalysis, values, expression)

    def _symbol(self, name: str) -> Any:
        if name not in self._symbols:
            source = ConstantSource(f"size_{name}")
            symbol = self._shapes.create_symbol(_HINT, source=source, dynamic_dim=DimDynamic.DYNAMIC)
            self._symbols[name] = self._shapes.create_symintnode(symbol, hint=_HINT, source=source)
        return self._symbols[name]


def _arguments(op: Any, row: Row, placeholder: Any) -> dict[str, Any]:
    """The arguments of the call for which ``op`` stands. Raises ``NotImplementedError`` if the row says other constants
    than those of ``op``."""
    operator = ir.find(op.type)
    assert operator is not None
    schema = {argument.name: argument for argument in schema_of(row.target).arguments}
    attributes = {attribute.name: attribute for attribute in operator.attributes}
    inputs = [(desc.name, tensor) for desc, tensor in zip(op.input_desc, data_inputs(op), strict=False) if tensor]
    given: dict[str, Any] = {}
    for name, source in row.sources:
        if name in attributes:
            if name not in op.attr:
                continue
            value = attributes[name].kind.stored_in(op.attr[name])
            if source.name == RESULT_TYPE:
                given |= _type_argument(schema, value)
                continue
        else:
            tensors = [placeholder(tensor) for of_input, tensor in inputs if _is_of(of_input, name)]
            is_list = source.name in schema and "List[" in str(schema[source.name].type)
            value = tensors if is_list else tensors[0] if tensors else None
        if source.name:
            given[source.name] = value
        elif value != source.value:
            raise NotImplementedError(f"its {name} is {value!r}, and {row.target} stands for {source.value!r}")
    for name, values in ascend_writes.VALUES_OF_IR.get(row.target, {}).items():
        value = given[name] if name in given else attributes[name].default
        known = [of_torch for of_torch, of_ir in values.items() if of_ir == value]
        if not known:
            raise NotImplementedError(f"its {name} is {value!r}, known are {', '.join(map(str, values.values()))}")
        given[name] = known[0]
    return given


def _list(text: str) -> list[ast.expr]:
    """The elements of a list. Raises ``NotImplementedError`` for another text."""
    try:
        parsed = ast.parse(text, mode="eval").body
    except SyntaxError:
        parsed = None
    if not isinstance(parsed, ast.List):
        raise NotImplementedError(f"{text!r} is no list of sizes")
    return parsed.elts


def _expression(size: ast.expr) -> Any:
    """A size as an expression of sympy. The text is that of a stranger, so it is not evaluated."""
    if isinstance(size, ast.Constant) and type(size.value) is int:
        return sympy.Integer(size.value)
    if isinstance(size, ast.Name):
        return sympy.Symbol(size.id, integer=True)
    if isinstance(size, ast.UnaryOp) and isinstance(size.op, ast.USub):
        return -_expression(size.operand)
    if isinstance(size, ast.BinOp) and type(size.op) in _OPERATORS:
        return _OPERATORS[type(size.op)](_expression(size.left), _expression(size.right))
    if isinstance(size, ast.Call) and isinstance(size.func, ast.Name) and size.func.id in _NAMES and not size.keywords:
        return _NAMES[size.func.id](*map(_expression, size.args))
    raise NotImplementedError(f"{ast.unparse(size)!r} is no size")


def _is_of(input_name: str, name: str) -> bool:
    """Whether an input is the one of the name, or one of a dynamic one: x0, x1, ..."""
    return input_name == name or re.fullmatch(rf"{re.escape(name)}\d+", input_name) is not None


def _type_argument(schema: Any, number: Any) -> dict[str, Any]:
    """The argument that says the type of the result."""
    data_type = data_types.DataType(number)
    scalar = next((n for n in data_types.ScalarType if data_types.of_scalar_type(n) == data_type), None)
    for name in (name for name in _TYPE_ARGUMENTS if name in schema):
        is_number = str(schema[name].real_type).removeprefix("Optional[").startswith("int")
        return {name: scalar if is_number else data_types.to_torch(data_type)}
    return {}


def _results(op: Any, row: Row, call: fx.Node) -> list[Tensor]:
    """The outputs of ``op`` that are results of the call, and behind them those that are written arguments."""
    outputs = [Tensor(op, index) for index in range(len(op.output_desc))]
    written: Any = written_arguments(call.target)
    arguments = ascend_writes.results_of(row) if written else [""] * len(outputs)
    new = [output for output, argument in zip(outputs, arguments, strict=True) if not argument]
    count = len(tree_leaves(listed(call.meta["val"])))
    if len(new) < count:
        raise NotImplementedError(f"{row.target} has {count} results, and {op.type} has {len(new)} outputs for them")
    return [*new[:count], *(outputs[arguments.index(argument)] for argument in written)]
