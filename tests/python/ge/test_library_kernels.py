# SPDX-License-Identifier: Apache-2.0
"""Operators with kernels of a user's library in GE mode, and in models that run without Python. The library is
tests/unit/core/libraries/sample_kernels.cc."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import npugraph
from npugraph.ge.attr import Float
from npugraph.ge.backend.npu_backend import get_npu_backend
from npugraph.ge.builders import custom_op
from npugraph.ge.config import CompilerConfig
from npugraph.ge.converters import register_fx_node_ge_converter
from npugraph.ge.export import dynamo_export
from tests.python.ge.air_runner import RUN, read
from tests.python.sample_kernels import LIBRARY

ops = torch.ops.test_ops


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def checked(fn: Callable[..., Any], *sizes: tuple[int, ...], dynamic: bool = False) -> npugraph.Artifact:
    """Compiles ``fn``, all of it as one graph of GE, and compares it for inputs of these sizes, and what it writes."""
    config = CompilerConfig()
    config.debug.missing_converters = "error"
    npugraph.reset()
    fast = torch.compile(fn, backend=get_npu_backend(compiler_config=config), dynamic=dynamic, fullgraph=True)
    for size in sizes:
        x = torch.randn(size)
        expected_input = x.clone()
        result, expected = fast(x), fn(expected_input)
        torch.testing.assert_close(result, expected)
        assert torch.equal(x, expected_input)
    (artifact,) = npugraph.artifacts()
    return artifact


def kernels(artifact: npugraph.Artifact) -> list[str]:
    return [task.name for task in artifact.tasks if task.name.startswith("test_ops.")]


def functional(x: torch.Tensor) -> torch.Tensor:
    return ops.reversed(ops.scaled_add(x * 2, x, 0.5) + 1)


def in_place(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    ops.scale_(y, 3.0)
    ops.scale_(x, 2)
    return y + x


@pytest.mark.feature("7.06", "7.07")
@pytest.mark.parametrize("dynamic", [False, True])
def test_functional_operators(dynamic: bool) -> None:
    artifact = checked(functional, (6,), (7,) if dynamic else (6,), dynamic=dynamic)
    assert kernels(artifact) == ["test_ops.scaled_add", "test_ops.reversed"]
    assert artifact.memory["copied_bytes_per_replay"] == 0


@pytest.mark.feature("7.05", "7.07")
@pytest.mark.parametrize("dynamic", [False, True])
def test_operators_that_write_are_in_place(dynamic: bool) -> None:
    artifact = checked(in_place, (6,), (7,) if dynamic else (6,), dynamic=dynamic)
    assert kernels(artifact) == ["test_ops.scale_"] * 2
    assert artifact.memory["copied_bytes_per_replay"] == 0


def test_a_value_that_is_read_later_is_kept() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        before = x + 0
        after = before.clone()
        ops.scale_(after, 2.0)
        return before + after

    checked(fn, (5,))


def test_a_written_value_may_be_the_result() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        ops.scale_(y, 3.0)
        return y

    checked(fn, (5,))


def test_arguments_of_every_kind() -> None:
    def fn(x: torch.Tensor) -> Any:
        total, count = ops.everything(x, None, [x + 1, x + 2], 3, [4, 5], None, True, "six", torch.float16)
        return total * 2, count + 1

    assert kernels(checked(fn, (3,))) == ["test_ops.everything"]


@pytest.mark.feature("6.32", "7.07")
def test_a_converter_of_the_user_may_give_it_another_name(own_converters: None) -> None:
    @register_fx_node_ge_converter(ops.scaled_add.default)
    def convert(x: Any, y: Any, scale: float, *, meta_outputs: Any) -> Any:
        return custom_op("MyAdd", inputs={"a": x, "b": y}, attrs={"scale": Float(scale)}, outputs=["c"])

    assert kernels(checked(functional, (6,))) == ["test_ops.scaled_add", "test_ops.reversed"]


def export(fn: Callable[..., Any], folder: Path, *args: Any, dynamic: bool = False) -> Path:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return fn(x)

    dynamo_export(*args, model=Model(), export_path=folder, export_name="model", dynamic=dynamic)
    return folder / "model.air"


def run(air: Path, x: np.ndarray[Any, Any], *options: str) -> subprocess.CompletedProcess[str]:
    np.save(air.parent / "x.npy", x)
    command = [RUN, air, "-i", air.parent / "x.npy", "-o", air.parent / "y.npy", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_model_in_a_file_runs_without_python(dynamic: bool, tmp_path: Path) -> None:
    air = export(functional, tmp_path, torch.randn(6), dynamic=dynamic)
    assert [op.type for op in read(air).graph[0].op if "_npugraph_operator" in op.attr] == ["ScaledAdd", "Reversed"]
    x = np.arange(9 if dynamic else 6, dtype=np.float32)
    done = run(air, x, "--library", str(LIBRARY))
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), functional(torch.from_numpy(x)).numpy())


def test_without_the_library_the_operator_and_the_option_are_named(tmp_path: Path) -> None:
    done = run(export(functional, tmp_path, torch.randn(6)), np.ones(6, np.float32))
    assert done.returncode != 0
    assert "of type ScaledAdd" in done.stderr
    assert "test_library_kernels.py" in done.stderr
    assert "it needs the kernel of test_ops.scaled_add" in done.stderr
    assert "--library PATH of npugraph-run" in done.stderr


def test_a_model_needs_only_the_name_in_ascend_ir(tmp_path: Path) -> None:
    air = export(functional, tmp_path, torch.randn(6))
    model = read(air)
    for op in model.graph[0].op:
        op.attr.pop("_npugraph_operator", None)
    air.write_bytes(model.SerializeToString())
    assert run(air, np.ones(6, np.float32), "--library", str(LIBRARY)).returncode == 0
    done = run(air, np.ones(6, np.float32))
    assert "Ascend IR has no operator of this type, and no library that is loaded has a kernel for it" in done.stderr


def test_an_operator_may_write_an_input_of_a_model(tmp_path: Path) -> None:
    """The operator of the user writes ``TensorMove`` of an input, or the input itself. The result is the same."""
    air = export(in_place, tmp_path, torch.randn(6))
    x = np.arange(6, dtype=np.float32)
    assert run(air, x, "--library", str(LIBRARY)).returncode == 0
    expected = np.load(tmp_path / "y.npy")
    model = read(air)
    producers = {f"{op.name}:0": op for op in model.graph[0].op}
    changed = 0
    for op in model.graph[0].op:
        copied = producers.get(op.input[0]) if op.type == "TestOpsScale" else None
        if copied is not None and producers[copied.input[0]].type == "RefData":
            op.input[0] = copied.input[0]
            changed += 1
    assert changed == 1
    air.write_bytes(model.SerializeToString())
    done = run(air, x, "--library", str(LIBRARY))
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "y.npy"), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda op: op.attr.pop("scale"), "it has no attribute 'scale', which test_ops::scaled_add("),
        (lambda op: op.attr["scale"].CopyFrom(op.attr["_npugraph_operator"]), "its attribute 'scale' is no float"),
        (lambda op: op.input.pop(), "it has no input for the argument 'y' of test_ops::scaled_add("),
        (lambda op: op.input.append(op.input[0]), "test_ops.scaled_add takes 2 inputs, got 3"),
        (lambda op: op.output_desc.add(name="z", dtype=1), "makes 1 tensors, got 2 outputs that are no inputs"),
    ],
)
def test_calls_that_do_not_fit_the_schema_are_refused(
    change: Callable[[Any], Any], message: str, tmp_path: Path
) -> None:
    air = export(functional, tmp_path, torch.randn(6))
    model = read(air)
    change(next(op for op in model.graph[0].op if op.type == "ScaledAdd"))
    air.write_bytes(model.SerializeToString())
    done = run(air, np.ones(6, np.float32), "--library", str(LIBRARY))
    assert done.returncode != 0
    assert message in done.stderr
