# SPDX-License-Identifier: Apache-2.0
"""Operators of users that are all Python, in graphs of GE: converters that follow from prototypes, and converters of
users to operators that only the user's operator can compute."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import npugraph
from npugraph.ge import apis as ge
from npugraph.ge.attr import Float
from npugraph.ge.backend.npu_backend import get_npu_backend
from npugraph.ge.builders import custom_op
from npugraph.ge.config import CompilerConfig
from npugraph.ge.converters import register_fx_node_ge_converter, user_operators
from npugraph.ge.prototypes import register_prototypes

library = torch.library.Library("ge_user_ops", "DEF")
ops = torch.ops.ge_user_ops


def define(schema: str, compute: Callable[..., Any], meta: Callable[..., Any] | None = None) -> None:
    library.define(schema)
    name = schema.split("(")[0]
    library.impl(name, compute, "CPU")
    library.impl(name, meta or (lambda x, *rest: x.new_empty(x.shape)), "Meta")


def add_into(x: torch.Tensor, y: torch.Tensor, scale: float) -> None:
    x.add_(y, alpha=scale)


define("auto_scaled(Tensor x, Tensor y, float scale) -> Tensor", lambda x, y, scale: x + scale * y)
define("auto_crossed(Tensor x, Tensor y, float scale) -> Tensor", lambda x, y, scale: x + scale * y)
define("auto_written_(Tensor(a!) x, Tensor y, float scale) -> ()", add_into, lambda *_: None)
define("auto_written_functional(Tensor x, Tensor y, float scale) -> Tensor", lambda x, y, scale: x + scale * y)
define("auto_list(Tensor[] xs, Tensor? y=None) -> Tensor", lambda xs, y=None: sum(xs), lambda xs, y=None: xs[0] + 0)
define("auto_pair(Tensor x) -> (Tensor, Tensor)", lambda x: (x + 1, x.t() * 2), lambda x: (x + 1, x.t() * 2))
define("auto_columns(Tensor x) -> Tensor", lambda x: x.t().contiguous().t(), lambda x: x.t().contiguous().t())
define("renamed(Tensor x, Tensor y, float scale) -> Tensor", lambda x, y, scale: x + scale * y)
define("two_parts(Tensor x) -> Tensor", lambda x: x * 2)
define("refused(Tensor x, Tensor y, float scale) -> Tensor", lambda x, y, scale: x + scale * y)
library.define("without_kernel(Tensor x, Tensor y) -> Tensor")
library.impl("without_kernel", lambda x, y: x.new_empty(x.shape), "Meta")
define("unknown(Tensor x) -> Tensor", lambda x: x * 2)


def prototype(op: str, inputs: str, outputs: str, attrs: str = "") -> dict[str, Any]:
    """``inputs`` are "x y? z*"."""
    kinds = {"?": "optional", "*": "dynamic"}

    def tensors(names: str) -> list[dict[str, Any]]:
        arity = [(name.rstrip("?*"), kinds.get(name[-1], "required")) for name in names.split()]
        return [{"name": name, "param_type": kind, "type": ["float"]} for name, kind in arity]

    attributes = [{"name": name, "param_type": "required", "type": "float"} for name in attrs.split()]
    return {"op": op, "input_desc": tensors(inputs), "output_desc": tensors(outputs), "attr": attributes}


@pytest.fixture(autouse=True, scope="module")
def prototypes(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("prototypes") / "ops.json"
    path.write_text(
        json.dumps(
            [
                prototype("AutoScaled", "a b", "z", "factor"),
                prototype("AutoCrossed", "y x", "z", "scale"),
                prototype("AutoWritten", "x y", "x", "scale"),
                prototype("AutoList", "xs* y?", "z"),
                prototype("AutoPair", "x", "y z"),
                prototype("AutoColumns", "x", "z"),
            ]
        )
    )
    register_prototypes(path)


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def checked(fn: Callable[..., Any], *inputs: torch.Tensor, dynamic: bool = False) -> npugraph.Artifact:
    """Compiles ``fn`` as one graph of GE, and compares its results and what it writes."""
    config = CompilerConfig()
    config.debug.missing_converters = "error"
    npugraph.reset()
    fast = torch.compile(fn, backend=get_npu_backend(compiler_config=config), dynamic=dynamic, fullgraph=True)
    for _ in range(2):
        mine, theirs = ([x.clone() for x in inputs] for _ in range(2))
        torch.testing.assert_close(fast(*mine), fn(*theirs), check_stride=True)
        assert all(map(torch.equal, mine, theirs))
    (artifact,) = npugraph.artifacts()
    return artifact


def tasks(artifact: npugraph.Artifact) -> list[str]:
    return [task.name for task in artifact.tasks if task.name.startswith("ge_user_ops.")]


@pytest.mark.feature("6.36", "7.07")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: ops.auto_scaled(x * 2, y, 0.5) + 1,
        lambda x, y: ops.auto_crossed(x * 2, y, 0.5) + 1,
        lambda x, y: ops.auto_list([x, y * 3]) + ops.auto_list([x + 1, y, x], y),
        lambda x, y: [part + 1 for part in ops.auto_pair(x - y)],
        lambda x, y: ops.auto_columns(x + y) * 2,
    ],
    ids=["by place", "by name", "lists", "two results", "strides"],
)
def test_a_converter_follows_from_the_prototype(fn: Callable[..., Any], dynamic: bool) -> None:
    assert tasks(checked(fn, torch.randn(4, 5), torch.randn(4, 5), dynamic=dynamic))


@pytest.mark.feature("6.36", "7.05")
def test_what_is_written_is_in_place() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x * 2
        ops.auto_written_(z, y, 3.0)
        ops.auto_written_(x, y, 2.0)
        return z + x

    artifact = checked(fn, torch.randn(6), torch.randn(6))
    assert tasks(artifact) == ["ge_user_ops.auto_written_"] * 2
    assert artifact.memory["copied_bytes_per_replay"] == 0


@pytest.mark.feature("6.36")
def test_the_ir_may_write_what_the_schema_does_not() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x * 2
        return ops.auto_written_functional(z, y, 3.0) + z

    assert tasks(checked(fn, torch.randn(6), torch.randn(6))) == ["ge_user_ops.auto_written_functional"]


@pytest.mark.feature("6.32", "7.07")
def test_a_converter_of_the_user_may_make_an_operator_that_only_the_user_has(own_converters: None) -> None:
    @register_fx_node_ge_converter(ops.renamed.default)
    def convert(x: Any, y: Any, scale: float, *, meta_outputs: Any) -> Any:
        return custom_op("OnlyMine", inputs={"y": y, "x": x}, attrs={"factor": Float(scale)}, outputs=["c"])

    assert tasks(checked(lambda x, y: ops.renamed(x, y, 0.5) * 2, torch.randn(6), torch.randn(6)))


def test_several_operators_that_only_the_user_has_run_eagerly(
    own_converters: None, caplog: pytest.LogCaptureFixture
) -> None:
    @register_fx_node_ge_converter(ops.two_parts.default)
    def convert(x: Any, *, meta_outputs: Any) -> Any:
        half = custom_op("FirstHalf", inputs={"x": x}, outputs=["y"])
        return custom_op("SecondHalf", inputs={"x": half}, outputs=["y"])

    fast = torch.compile(lambda x: ops.two_parts(x) + 1, backend=get_npu_backend(compiler_config=CompilerConfig()))
    x = torch.randn(3)
    torch.testing.assert_close(fast(x), x * 2 + 1)
    assert "its converter adds FirstHalf, SecondHalf, and the engine computes none of these" in caplog.text


@pytest.mark.feature("6.36", "11.25")
@pytest.mark.parametrize(
    ("operator", "row", "reason"),
    [
        (torch.relu, None, "it is no OpOverload"),
        (torch.ops.aten.relu.default, None, "operators of the namespace aten have converters of their own or none"),
        (ops.unknown.default, None, "Ascend IR has no operator Unknown, and npugraph.register_prototypes has not"),
        (None, prototype("Refused", "x", "z", "scale"), "it has 2 tensors as arguments, and Refused1 has 1 inputs"),
        (None, prototype("Refused", "x y", "z"), "it has 1 other arguments, and Refused2 has 0 attributes"),
        (None, prototype("Refused", "y b", "z", "scale"), "by its place its argument x is y, which is the name of"),
        (None, prototype("Refused", "x y*", "z", "scale"), "only one of its argument y and the input y is a list"),
        (None, prototype("Refused", "x y", "z*", "scale"), "it has an output with any number of tensors"),
        (None, prototype("Refused", "x y", "u v", "scale"), "makes 1 tensors and writes 0, and it has 2 outputs"),
        ("w", prototype("Refused", "x y", "z", "scale"), "writes its argument x, and no output has the name x"),
    ],
)
def test_why_there_is_none(operator: Any, row: Any, reason: str, tmp_path: Path, request: Any) -> None:
    if row is not None:
        number = int(request.node.callspec.indices["reason"]) - 2
        name = f"refused{number}"
        row = row | {"op": f"Refused{number}"}
        (tmp_path / "op.json").write_text(json.dumps([row]))
        register_prototypes(tmp_path / "op.json")
        x = "Tensor(a!) x" if operator == "w" else "Tensor x"
        library.define(f"{name}({x}, Tensor y, float scale) -> {'()' if operator == 'w' else 'Tensor'}")
        operator = getattr(ops, name).default
    assert reason in user_operators.why_none(operator)
    assert user_operators.converter(operator) is None


def test_the_log_says_why_an_operator_runs_eagerly(caplog: pytest.LogCaptureFixture) -> None:
    fast = torch.compile(lambda x: ops.unknown(x) + 1, backend=get_npu_backend(compiler_config=CompilerConfig()))
    x = torch.randn(3)
    torch.testing.assert_close(fast(x), x * 2 + 1)
    assert "torch.ops.ge_user_ops.unknown.default ge_converter is not implemented! (Ascend IR has no" in caplog.text


def test_an_operator_with_a_converter_needs_no_kernel() -> None:
    @register_fx_node_ge_converter(ops.without_kernel.default)
    def convert(x: Any, y: Any, *, meta_outputs: Any) -> Any:
        return ge.Add(x, ge.Mul(y, 3.0))

    x, y = torch.randn(4, 5), torch.randn(4, 5)
    for dynamic in (False, True):
        torch._dynamo.reset()
        fast = torch.compile(
            lambda x, y: ops.without_kernel(x * 2, y) + 1, backend=get_npu_backend(), dynamic=dynamic, fullgraph=True
        )
        torch.testing.assert_close(fast(x, y), x * 2 + y * 3 + 1)
    with pytest.raises(NotImplementedError, match="ge_user_ops::without_kernel has no kernel for cpu"):
        torch.compile(ops.without_kernel, backend="npugraph_ex", fullgraph=True)(x, y)
