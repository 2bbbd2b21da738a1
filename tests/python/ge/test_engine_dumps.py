# SPDX-License-Identifier: Apache-2.0
"""``dump_config`` and ``torchair.scope.data_dump``: the engine writes the tensors of operators of Ascend IR."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchair
from npugraph import artifacts
from tests.python.ge.converted import random_tensor as t
from torchair.scope import data_dump, super_kernel

_NAME = re.compile(r"(?P<op>\w+\.\w+)\.\d+\.\d+\.\d{16}\.(?P<side>(input|output)(\.\d+)?\.\w+)")


def compiled(
    function: Callable[..., Any], folder: Path | None, *, dynamic: bool = False, **options: Any
) -> Callable[..., Any]:
    """With these options of ``dump_config``, and the dump on if there is a folder for it."""
    config = torchair.CompilerConfig()
    if folder is not None:
        options |= {"enable_dump": True, "dump_path": str(folder)}
    for name, value in options.items():
        setattr(config.dump_config, name, value)
    torch._dynamo.reset()
    backend = torchair.get_npu_backend(compiler_config=config)
    return torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)


def dumped(folder: Path) -> dict[str, Path]:
    """The files by run, operator and tensor: ``0/Add.Add_1.output.0.npy``."""
    files = {}
    for path in folder.glob("worldsize1_global_rank0/*/0/graph_*/*/*/*"):
        name = _NAME.fullmatch(path.name)
        assert name is not None, path
        files[f"{path.parent.name}/{name['op']}.{name['side']}"] = path
    assert len(files) == sum(path.is_file() for path in folder.rglob("*"))
    return files


def chain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(torch.relu(x @ w)) + 1


@pytest.mark.feature("6.11", "9.07")
@torch.no_grad()
def test_every_tensor_of_a_run_is_eagers(tmp_path: Path) -> None:
    fast, x, w = compiled(chain, tmp_path), t(4, 5), t(5, 6)
    torch.testing.assert_close(fast(x, w), chain(x, w))
    product = x @ w
    relu = product.relu()
    sigmoid = relu.sigmoid()
    expected = {
        "MatMul.MatMul": ([x, w], product),
        "Relu.Relu": ([product], relu),
        "Sigmoid.Sigmoid": ([relu], sigmoid),
        "Add.Add": ([sigmoid, torch.tensor(1.0)], sigmoid + 1),
    }
    files = dumped(tmp_path)
    for op, (inputs, output) in expected.items():
        tensors = {f"0/{op}.input.{i}.npy": value for i, value in enumerate(inputs)} | {f"0/{op}.output.0.npy": output}
        for name, tensor in tensors.items():
            torch.testing.assert_close(torch.from_numpy(np.load(files.pop(name))), tensor)
    assert not files


@pytest.mark.feature("6.11", "9.07")
@torch.no_grad()
def test_runs_layers_and_sides_are_chosen(tmp_path: Path) -> None:
    fast = compiled(chain, tmp_path, dump_step="0|2-3", dump_layer="Relu Nothing", dump_mode="output")
    x, w = t(4, 5), t(5, 6)
    for factor in range(5):
        torch.testing.assert_close(fast(x * factor, w), chain(x * factor, w))
    files = dumped(tmp_path)
    assert sorted(files) == [f"{run}/Relu.Relu.output.0.npy" for run in (0, 2, 3)]
    for run in (0, 2, 3):
        written = torch.from_numpy(np.load(files[f"{run}/Relu.Relu.output.0.npy"]))
        torch.testing.assert_close(written, torch.relu(x * run @ w))


@pytest.mark.feature("6.11", "9.07")
@torch.no_grad()
def test_operators_that_are_not_chosen_are_fused_as_ever(tmp_path: Path) -> None:
    def tasks(folder: Path | None, **options: Any) -> list[tuple[str, str]]:
        fast = compiled(lambda x: torch.tanh(torch.neg(torch.sigmoid(torch.exp(x)))), folder, **options)
        fast(t(64, 64))
        return [(task.kind, task.origin) for task in artifacts()[-1].tasks]

    assert tasks(None) == tasks(None, dump_layer="Sigmoid") == [("loop", "Exp, Sigmoid, Neg, Tanh")]
    assert tasks(tmp_path, dump_layer="Sigmoid", dump_mode="output") == [
        ("loop", "Exp, Sigmoid"),
        ("kernel", "Sigmoid"),
        ("loop", "Neg, Tanh"),
    ]


@pytest.mark.feature("6.11")
@torch.no_grad()
def test_types_that_numpy_lacks_are_float32(tmp_path: Path) -> None:
    fast = compiled(lambda x: torch.neg(x), tmp_path, dump_mode="output")
    x = t(3, 4).to(torch.bfloat16)
    fast(x)
    written = np.load(dumped(tmp_path)["0/Neg.Neg.output.0.npy"])
    torch.testing.assert_close(torch.from_numpy(written), -x.float(), rtol=0, atol=0)


@pytest.mark.feature("6.11")
@torch.no_grad()
def test_statistics_of_tensors(tmp_path: Path) -> None:
    fast = compiled(lambda x: torch.relu(x), tmp_path, dump_data="stats", dump_mode="input")
    fast(torch.tensor([[1.0, -3.0], [float("nan"), float("inf")]]))
    (path,) = dumped(tmp_path).values()
    names, row = path.read_text().splitlines()
    assert dict(zip(names.split(","), row.split(","), strict=True)) == {
        **{"Input/Output": "Input", "Index": "0", "Data Size": "16", "Data Type": "f32", "Format": "ND"},
        **{"Shape": "2x2", "Max Value": "inf", "Min Value": "-3", "Avg Value": "inf", "Count": "4"},
        **{"Nan Count": "1", "Negative Inf Count": "0", "Positive Inf Count": "1"},
    }


@pytest.mark.feature("6.11")
@torch.no_grad()
def test_a_file_of_settings(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    settings = {"dump_path": str(tmp_path / "files"), "dump_list": [{"layer": ["Relu"]}], "dump_mode": "input"}
    path.write_text(json.dumps({"dump": settings}))
    compiled(chain, None, dump_config_path=path)(t(4, 5), t(5, 6))
    (file,) = (tmp_path / "files").rglob("*.npy")
    assert file.name.startswith("Relu.Relu.") and file.name.endswith(".input.0.npy")


@pytest.mark.feature("4.13", "9.07")
@torch.no_grad()
def test_a_scope_chooses_operators_besides_layers(tmp_path: Path) -> None:
    def scoped(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        with data_dump():
            y = torch.sigmoid(y)
        return torch.tanh(y)

    x = t(4, 5)
    for layers, expected in {"": ["Sigmoid"], "Tanh": ["Sigmoid", "Tanh"]}.items():
        folder = tmp_path / (layers or "none")
        folder.mkdir()
        fast = compiled(scoped, folder, dump_layer=layers, dump_mode="output")
        torch.testing.assert_close(fast(x), scoped(x))
        files = dumped(folder)
        assert sorted(files) == [f"0/{op}.{op}.output.0.npy" for op in expected]
        torch.testing.assert_close(
            torch.from_numpy(np.load(files["0/Sigmoid.Sigmoid.output.0.npy"])), x.relu().sigmoid()
        )
    compiled(scoped, None)(x)  # the scope alone writes nothing


@pytest.mark.feature("6.11")
@torch.no_grad()
def test_an_input_is_written_as_it_was_before_the_operator(tmp_path: Path) -> None:
    def update(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache.add_(x)
        return cache * 2

    fast, cache, x = compiled(update, tmp_path, dump_layer="Add"), t(3, 4), t(3, 4)
    before = cache.clone()
    torch.testing.assert_close(fast(cache, x), (before + x) * 2)
    torch.testing.assert_close(cache, before + x)
    files = dumped(tmp_path)
    torch.testing.assert_close(torch.from_numpy(np.load(files["0/Add.Add.input.0.npy"])), before)
    torch.testing.assert_close(torch.from_numpy(np.load(files["0/Add.Add.output.0.npy"])), before + x)


@pytest.mark.feature("6.11")
@torch.no_grad()
def test_a_super_kernel_is_dumped(tmp_path: Path) -> None:
    def scoped(x: torch.Tensor) -> torch.Tensor:
        with super_kernel("both"):
            return torch.sigmoid(torch.relu(x)) @ x

    fast, x = compiled(scoped, tmp_path, dump_layer="Relu"), t(5, 5)
    torch.testing.assert_close(fast(x), scoped(x))
    assert sorted(dumped(tmp_path)) == ["0/Relu.Relu.input.0.npy", "0/Relu.Relu.output.0.npy"]


@pytest.mark.feature("6.11")
@torch.no_grad()
def test_sizes_of_a_call_share_the_count_of_runs(tmp_path: Path) -> None:
    fast = compiled(lambda x: torch.relu(x), tmp_path, dynamic=True, dump_mode="output")
    for rows in (3, 4, 3):
        fast(t(rows, 2))
    shapes = {name: np.load(path).shape for name, path in dumped(tmp_path).items()}
    assert shapes == {f"{run}/Relu.Relu.output.0.npy": (rows, 2) for run, rows in enumerate((3, 4, 3))}
