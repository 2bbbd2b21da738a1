# SPDX-License-Identifier: Apache-2.0
"""``debug.fx_summary`` and ``debug.data_dump``: graphs that run operator by operator, for people who look at them."""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import fx

from npugraph.ge.backend.npu_backend import get_npu_backend
from npugraph.ge.config import CompilerConfig
from npugraph.ge.fx.summary import COLUMNS, MISSING, PARTLY, SUPPORTED
from npugraph.log import logger
from tests.python.ge.converted import random_tensor as t


def config_of(**options: Any) -> CompilerConfig:
    """Options of ``debug``, with ``__`` for a dot."""
    config = CompilerConfig()
    for path, value in options.items():
        holder, _, name = path.rpartition("__")
        setattr(getattr(config.debug, holder), name, value)
    return config


def compiled(function: Callable[..., Any], config: CompilerConfig, **how: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend=get_npu_backend(compiler_config=config), **how)


def rows_of(directory: Path) -> dict[str, list[str]]:
    (path,) = directory.glob("*.csv")
    assert re.fullmatch(r"summary_rank_0_pid_\d+_ts_\d{20}\.csv", path.name)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    header, *rows = csv.reader(path.read_text("utf-8-sig").splitlines())
    assert header == list(COLUMNS)
    return {row[0]: row[1:] for row in rows}


def several(x: torch.Tensor) -> torch.Tensor:
    y = torch.digamma(x + 1) + torch.relu(x) * 2
    return torch.matrix_exp(y[:, :4]).sum() + (y + 1)


@pytest.mark.feature("6.05")
@torch.no_grad()
def test_the_summary_has_a_row_for_each_target(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = config_of(fx_summary__type="csv", fx_summary__path=str(tmp_path))
    fast = compiled(several, config)
    x = t(4, 6)
    with caplog.at_level(logging.INFO, logger.name):
        torch.testing.assert_close(fast(x), several(x))
    assert not any(record.getMessage().startswith("start compile graph") for record in caplog.records)
    rows = rows_of(tmp_path)
    assert rows["aten.add.Tensor"][:3] == ["call_function", SUPPORTED, "4"]
    assert "2x (f32[4, 6], 1)" in rows["aten.add.Tensor"][3] and "4x (f32[4, 6])" in rows["aten.add.Tensor"][4]
    assert rows["aten.digamma.default"] == ["call_function", MISSING, "1", "1x (f32[4, 6])", "1x (f32[4, 6])"]
    assert rows["aten.linalg_matrix_exp.default"][1] == MISSING


@pytest.mark.feature("6.05")
@torch.no_grad()
def test_a_converter_that_refuses_calls_supports_its_operator_partly(tmp_path: Path) -> None:
    config = config_of(fx_summary__type="csv", fx_summary__path=str(tmp_path))
    x = torch.tensor([1 + 2j, 3])
    torch.testing.assert_close(compiled(lambda x: x + 1, config)(x), x + 1)
    assert rows_of(tmp_path)["aten.add.Tensor"][1] == PARTLY


@pytest.mark.feature("6.05")
@torch.no_grad()
def test_the_graph_is_compiled_behind_its_summary_on_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = {"fx_summary__type": "csv", "fx_summary__path": str(tmp_path), "fx_summary__skip_compile": False}
    fast = compiled(lambda x, n: torch.relu(x) * n, config_of(**options), dynamic=True)
    with caplog.at_level(logging.INFO, logger.name):
        for size in (4, 7):
            x = t(size, 3)
            torch.testing.assert_close(fast(x, size), torch.relu(x) * size)
    assert any(record.getMessage().startswith("start compile graph") for record in caplog.records)
    assert re.fullmatch(r"1x \(f32\[s\d+, s\d+\]\)", rows_of(tmp_path)["aten.relu.default"][3])


@pytest.mark.feature("6.04", "9.08")
@torch.no_grad()
def test_tensors_of_each_call_are_written(tmp_path: Path) -> None:
    config = config_of(data_dump__type="npy", data_dump__path=str(tmp_path / "new"))

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.mul_(2)
        return torch.topk(x + y, 2)

    x, y = t(3, 4), t(3, 4)
    before = x.clone()
    values, _ = compiled(function, config)(x, y)
    torch.testing.assert_close(x, before * 2)
    files = {path.name.rsplit(".", 2)[0]: path for path in (tmp_path / "new").iterdir()}
    names = ["mul-aten.mul.Tensor.INPUT.0", "mul-aten.mul.Tensor.OUTPUT.0"]
    names += [f"add-aten.add.Tensor.{side}" for side in ("INPUT.0", "INPUT.1", "OUTPUT.0")]
    names += [f"topk-aten.topk.default.{side}" for side in ("INPUT.0", "OUTPUT.0", "OUTPUT.1")]
    assert set(names) <= files.keys()
    np.testing.assert_array_equal(np.load(files["mul-aten.mul.Tensor.INPUT.0"]), before.numpy())
    np.testing.assert_array_equal(np.load(files["topk-aten.topk.default.OUTPUT.0"]), values.numpy())
    assert all(re.search(r"\.\d{16}\.npy$", path.name) for path in files.values())


@pytest.mark.feature("6.04")
@torch.no_grad()
def test_a_filter_chooses_the_calls(tmp_path: Path) -> None:
    def only_relu(node: fx.Node) -> fx.Node | None:
        return node if node.target is torch.ops.aten.relu.default else None

    config = config_of(data_dump__type="npy", data_dump__path=str(tmp_path), data_dump__filter=only_relu)
    x = t(2, 3, dtype=torch.bfloat16)
    for _ in range(2):
        compiled(lambda x: torch.relu(x) + 1, config)(x)
    written = sorted(path.name.split(".")[3] for path in tmp_path.iterdir())
    assert written == ["INPUT", "INPUT", "OUTPUT", "OUTPUT"]
    (first, *_) = tmp_path.glob("*.INPUT.*")
    np.testing.assert_array_equal(np.load(first), x.float().numpy())  # NumPy has no bfloat16


@pytest.mark.feature("6.04")
@torch.no_grad()
def test_types_that_numpy_does_not_have(tmp_path: Path) -> None:
    config = config_of(data_dump__type="npy", data_dump__path=str(tmp_path))
    x = torch.tensor([1.0, 2.0])
    narrow = compiled(lambda x: (x.to(torch.float8_e4m3fnuz), x.to(torch.complex32)), config)(x)
    assert [value.dtype for value in narrow] == [torch.float8_e4m3fnuz, torch.complex32]
    z = torch.tensor([1 + 2j])
    torch.testing.assert_close(compiled(lambda z: (z.conj() * 2).imag, config)(z), torch.tensor([-4.0]))
    assert {np.load(path).dtype.name for path in tmp_path.iterdir()} == {"float32", "complex64"}


@pytest.mark.feature("6.04")
def test_a_training_step_is_written_in_both_directions(tmp_path: Path) -> None:
    config = config_of(data_dump__type="npy", data_dump__path=str(tmp_path))
    x = t(3, 4).requires_grad_()
    compiled(lambda x: torch.tanh(x).sum(), config)(x).backward()
    torch.testing.assert_close(x.grad, 1 - torch.tanh(x.detach()) ** 2)
    names = {path.name.split("-")[1].split(".")[1] for path in tmp_path.iterdir()}
    assert {"tanh", "sum"} <= names and names & {"tanh_backward", "expand"}
