# SPDX-License-Identifier: Apache-2.0
"""Models in files run in ``npugraph-run``, a process without Python and torch, and here, with the same bits."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from npugraph.ge.executor import TorchNpuGraphBase
from tests.python.ge.air_runner import RUN, BareRoot
from tests.python.ge.models import Model, mlp


def run_file(model: Model, folder: Path, *inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Runs the model in a process of its own and returns its first result."""
    (folder / "model.air").write_bytes(model.serialised())
    arguments = [str(RUN), str(folder / "model.air"), "-o", str(folder / "result.npy")]
    for i, array in enumerate(inputs):
        np.save(folder / f"input{i}.npy", array)
        arguments += ["-i", str(folder / f"input{i}.npy")]
    subprocess.run(arguments, check=True, capture_output=True, text=True)
    return np.load(folder / "result.npy")


def refusal(model: Model, folder: Path, *inputs: np.ndarray[Any, Any]) -> str:
    with pytest.raises(subprocess.CalledProcessError) as error:
        run_file(model, folder, *inputs)
    return error.value.stderr


def in_process(model: Model, *inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    graph = TorchNpuGraphBase("test")
    graph.load(model.serialised(), {}, [0] * len(inputs), [], 0)
    graph.compile()
    (result,) = graph.run(([torch.from_numpy(array) for array in inputs], [], None))
    return result.numpy()


def test_a_model_of_the_spec_alone_runs_at_any_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model, reference = mlp(rng)
    root = BareRoot(tmp_path)
    (root.files / "mlp.air").write_bytes(model.serialised())
    for rows in (1, 5, 33):
        x, r = (rng.standard_normal((rows, width), dtype=np.float32) for width in (8, 4))
        (result,) = root.run("mlp.air", [torch.from_numpy(x), torch.from_numpy(r)])
        np.testing.assert_allclose(result, reference(x.astype(np.float64), r), rtol=1e-4, atol=1e-4)
        assert result.tobytes() == in_process(model, x, r).tobytes()
    summary = [line.strip() for line in root.summary("mlp.air").splitlines()]
    tensors = ["input 0 (x): f32[d0, 8]", "input 1 (r): f32[d0, 4]", "output 0: f32[d0, 4]"]
    assert summary[1:5] == [*tensors, "2 tasks: 2 matmul"]


def test_sizes_that_have_to_be_equal_are_compared(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model, _ = mlp(rng)
    x, r = np.zeros((5, 8), np.float32), np.zeros((6, 4), np.float32)
    assert "input 1 (r) is f32[d0, 4] with d0=5, got f32[6, 4]" in refusal(model, tmp_path, x, r)


def test_a_changed_operator_changes_the_result(tmp_path: Path) -> None:
    model = Model()
    model.output(model.op("Add", "y", [model.data("a", 0, [3]), model.data("b", 1, [3])]))
    a, b = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)
    assert in_process(model, a, b).tolist() == [11, 22, 33]
    next(op for op in model.graph.op if op.type == "Add").type = "Sub"
    assert in_process(model, a, b).tolist() == [-9, -18, -27]
    assert run_file(model, tmp_path, a, b).tolist() == [-9, -18, -27]


def test_changed_bytes_of_a_constant_change_the_result() -> None:
    model = Model()
    model.output(model.op("Mul", "y", [model.data("x", 0, [2]), model.const("w", np.array([2, 3], np.float32))]))
    x = np.array([1, 1], np.float32)
    assert in_process(model, x).tolist() == [2, 3]
    constant = next(op for op in model.graph.op if op.type == "Const")
    constant.attr["value"].t.data = np.array([5, 7], np.float32).tobytes()
    assert in_process(model, x).tolist() == [5, 7]


def test_an_unknown_type_is_named_with_the_users_line(tmp_path: Path) -> None:
    model = Model()
    model.output(model.op("Frobnicate", "y", [model.data("x", 0, [2])], _npugraph_source="model.py:3 in forward"))
    text = refusal(model, tmp_path, np.zeros(2, np.float32))
    assert "operator 'y' of type Frobnicate (model.py:3 in forward): Ascend IR has no operator of this type" in text


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.air").write_bytes(b"\x3a\xff\xff\xff")
    done = subprocess.run([str(RUN), str(tmp_path / "bad.air")], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "bad.air is no model of GE: ModelDef" in done.stderr


def test_the_order_of_a_graphs_life_is_checked() -> None:
    graph = TorchNpuGraphBase("g")
    with pytest.raises(RuntimeError, match="graph 'g' is created, and run takes a graph that is compiled"):
        graph.run(([], [], None))
    with pytest.raises(RuntimeError, match="graph 'g' is created, and compile takes a graph that is loaded"):
        graph.compile()
