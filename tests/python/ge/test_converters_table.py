# SPDX-License-Identifier: Apache-2.0
"""The table of converters: how rows are read, that all fit their operators, and what a call may say beyond its row."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from npugraph.ge import apis as ge
from npugraph.ge import converters, ir
from npugraph.ge.converters import absent, registry, rows, table
from npugraph.ge.converters.values import Number
from npugraph.ge.data_types import DataType, TensorSpec
from npugraph.ge.graph import GeGraph
from tests.python.ge.converted import formula

ENGINE = Path(__file__).parents[3] / "src/core/ge/import"
ROWS = [table.parse(row) for row in rows.ROWS]


def test_a_row_says_where_inputs_and_attributes_come_from() -> None:
    row = table.parse("aten.x.default: SoftmaxV2 x=self^^ axes=[dim] half_to_float=True -dtype")
    assert (row.target, row.op_type, row.ignored) == ("aten.x.default", "SoftmaxV2", {"dtype"})
    assert dict(row.sources) == {
        "x": table.Source("self", None, "^^", False),
        "axes": table.Source("dim", None, "", True),
        "half_to_float": table.Source("", True, "", False),
    }
    assert table.argument_names(row) == ["self", "dim"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aten.cos.default Cos x=self", "is written as target: Operator name=source"),
        ("aten.cos.default: Kos x=self", "Ascend IR has no operator 'Kos'"),
        ("aten.cos.default: Cos", "Cos needs 'x'; it is Cos"),
        ("aten.add.Tensor: Add x1=self", "Add needs 'x2'"),
        ("aten.cos.default: Cos x=self y=self", "'y=self' names no input and no attribute"),
        ("aten.cos.default: Cos x=self self", "'self' names no input and no attribute"),
        ("aten.cos.default: Cos x=self x=other", "names an input or an attribute twice"),
        ("aten.gelu.default: GeluV2 x=self approximate=approximate^", "is an attribute, which is not converted"),
        ("aten.cos.default: Cos x=[1,", "is neither an argument nor a constant"),
        ("aten.cos.default: Cos x=self+1", "is neither an argument nor a constant"),
    ],
)
def test_rows_that_are_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        table.parse(text)


@given(st.text(alphabet="aten.cos:Cox=self^~[]-1'_ ", max_size=40))
def test_any_text_is_a_row_or_an_error_that_shows_it(text: str) -> None:
    try:
        assert table.parse(text).text == text
    except ValueError as error:
        assert repr(text) in str(error)


def test_a_target_has_one_row() -> None:
    with pytest.raises(ValueError, match=re.escape("has another row for aten.new.default")):
        table.register_rows(["aten.new.default: Cos x=self", "aten.new.default: Sin x=self"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.target)
def test_rows_name_arguments_that_their_targets_have(row: table.Row) -> None:
    schema = table.schema_of(row.target)
    if schema is None:
        assert row.target.split(".")[0] in ("npu", "operator", "torch")
        return
    arguments = {argument.name: argument for argument in schema.arguments}
    named = {*table.argument_names(row), *row.ignored}
    assert named <= set(arguments)
    if "meta_outputs.dtype" in row.text:
        named.add("dtype")
    assert {name for name, argument in arguments.items() if not argument.has_default_value()} <= named


# Operators of Ascend IR that parts compute, or operators of the host (test_converters_parts.py,
# test_random_numbers.py). Those on lists of tensors have parts, too.
IN_PARTS = {
    *("AdaptiveAvgPool2dGrad", "AvgPoolV2Grad", "Col2im", "DepthToSpace", "DropOutDoMask", "EmbeddingBag", "Erfinv"),
    *("FlashAttentionScoreGrad", "GridSampler2D", "GridSampler2DGrad", "GridSampler3D", "GroupNormGrad", "Im2col"),
    *("LayerNormGradV3", "MatrixTriangularSolve", "MaxPool3DWithArgmaxV2", "MaxPoolGradWithArgmaxV3"),
    *("MultinomialWithReplacement", "PReluGrad", "PadV3Grad"),
    *("ResizeNearestNeighborV2Grad", "RightShift", "StatelessBernoulli", "StatelessDropOutGenMask"),
    *("StatelessRandomNormalV2", "StatelessRandomUniformIntV2", "StatelessRandomUniformV2", "StatelessRandperm"),
}


def test_the_engine_has_a_rule_or_parts_for_all_operators_that_converters_add() -> None:
    """Those of Ascend's operators are not here: parts compute theirs (test_ge_operators_of_ascend.py). Collectives name
    the operator that computes them (test_ge_collectives.py)."""
    ruled = {name for file in ENGINE.glob("*.cc") for name in re.findall(r'^ +\{"(\w+)", ', file.read_text(), re.M)}
    files = [file for file in Path(converters.__file__).parent.glob("*.py") if not file.name.startswith("ascend")]
    sources = "\n".join(file.read_text() for file in files)
    added = {row.op_type for row in ROWS} | set(re.findall(r"\bge\.([A-Z]\w+)\(", sources))
    added |= {word for word in re.findall(r'"([A-Z]\w+)"', sources) if ir.find(word)}
    elsewhere = {name for name in added if name.startswith(("Foreach", "Hcom"))}
    assert added - ruled - elsewhere - {"Clone", "Const"} == IN_PARTS  # Clone adds TensorMove


def call(target: Any, *args: Any, spec: TensorSpec, **kwargs: Any) -> str:
    """The formula of a call of a converter; x is an input of float32."""
    graph = GeGraph(name="g")
    with graph.context():
        x = ge.Data(index=0, dtype=DataType.DT_FLOAT, shape=[2, 3], node_name="x")
        body = converters.find(target)
        assert body is not None
        ge.NetOutput([body(*(x if arg == "x" else arg for arg in args), **kwargs, meta_outputs=spec)])
    return formula(graph)


SPEC = TensorSpec(DataType.DT_FLOAT, (2, 3))
aten = torch.ops.aten


def test_arguments_come_by_place_and_by_name() -> None:
    assert call(aten.cumsum.default, "x", 1, spec=SPEC) == "Cumsum(x, 1)"
    assert call(aten.cumsum.default, "x", dim=1, spec=SPEC) == "Cumsum(x, 1)"
    assert call(aten.tril.default, "x", spec=SPEC) == "Tril(x)"  # the schema's default


def test_arguments_that_a_row_does_not_name() -> None:
    assert call(aten.clone.default, "x", memory_format=torch.preserve_format, spec=SPEC) == "TensorMove(x)"
    assert call(aten.gather.default, "x", 0, "x", sparse_grad=True, spec=SPEC) == "GatherElements(x, x)"
    with pytest.raises(NotImplementedError, match=r"its argument dtype is torch\.float64"):
        call(aten.abs.default, "x", dtype=torch.float64, spec=SPEC)


def test_attributes_are_known_when_a_graph_is_compiled() -> None:
    late = Number(torch.SymInt, lambda: pytest.fail("nobody needs it"))  # any integer
    with pytest.raises(NotImplementedError, match="its argument diagonal is known only when the graph runs"):
        call(aten.tril.default, "x", late, spec=SPEC)


def test_the_first_registration_of_a_target_wins() -> None:
    def never_called(meta_outputs: Any) -> None: ...

    before = converters.find(aten.cos.default)
    assert converters.register_fx_node_ge_converter(aten.cos.default)(never_called) is never_called
    assert converters.find(aten.cos.default) is before is not None
    assert "aten.cos.default" in converters.registered()


@pytest.mark.parametrize("target", [aten.cos, "aten.cos.default", 3])
def test_targets_that_cannot_have_a_converter(target: Any) -> None:
    with pytest.raises(TypeError, match="a converter is for an overload of an operator"):
        converters.register_fx_node_ge_converter(target)
    assert converters.find(target) is None


def test_names_of_targets() -> None:
    import operator

    assert registry.name_of(operator.add) == "operator.add"
    assert registry.name_of(torch.sym_max) == "torch.sym_max"
    assert registry.name_of(torch.ops.higher_order.cond) == "higher_order.cond"


def test_names_of_torchair_have_a_converter_or_a_reason_to_have_none() -> None:
    """Those of ATen, of higher-order operators and of Python."""
    names = Path(converters.__file__).with_name("torchair_converters.txt").read_text().split()
    others = ("npu", "air.", "_c10d_functional.", "c10d_functional.")
    known = {name for name in names if not name.startswith(others)}
    of_ascend = {name for name in absent.ABSENT if name.startswith("npu.")}
    assert known - set(converters.registered()) == absent.ABSENT.keys() - of_ascend
    assert all(reason.endswith(".") for reason in absent.ABSENT.values())
