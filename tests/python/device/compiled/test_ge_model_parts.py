# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph parts``: models of Ascend IR whose operators of Ascend have no parts yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_npu

import torchair
from npugraph.__main__ import main
from npugraph.ge import proto
from npugraph.ge.fx.operator_parts import PARTS
from tests.python.device.npu_operators import normal
from tests.python.ge.air_runner import BareRoot, arguments_of, read


def layer(x: torch.Tensor, residual: torch.Tensor, gamma: torch.Tensor, weight: torch.Tensor) -> Any:
    y, _, sums = torch_npu.npu_add_rms_norm(x, residual, gamma)
    quantised, scale = torch_npu.npu_dynamic_quant(torch_npu.npu_swiglu(y @ weight))
    return quantised, scale, sums


def rotated_step(q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, at: torch.Tensor, keys: torch.Tensor) -> Any:
    turned = torch_npu.npu_rotary_mul(q, cos, sin)
    torch_npu.scatter_update_(keys, at, turned, 2)
    return keys.sum(2)


def inputs_of_layer() -> list[torch.Tensor]:
    return [normal(*size, seed=seed).npu() for seed, size in enumerate([(6, 16), (6, 16), (16,), (16, 32)])]


def inputs_of_step() -> list[torch.Tensor]:
    tables = [normal(1, 1, 1, 16, seed=seed).npu() for seed in (1, 2)]
    return [normal(3, 4, 1, 16).npu(), *tables, torch.tensor([3, 0, 7]).npu(), normal(3, 4, 8, 16, seed=3).npu()]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("function", "inputs"), [(layer, inputs_of_layer), (rotated_step, inputs_of_step)])
def test_the_command_adds_what_is_missing(
    function: Callable[..., Any],
    inputs: Callable[[], list[torch.Tensor]],
    dynamic: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Model(torch.nn.Module):
        def forward(self, *given: torch.Tensor) -> Any:
            return function(*given)

    root, model = BareRoot(tmp_path), Model()
    torch._dynamo.reset()
    torchair.dynamo_export(*inputs(), model=model, export_path=str(root.files), export_name="m", dynamic=dynamic)
    file = read(root.files / "m.air")
    arguments = arguments_of(file, model, [x.cpu() for x in inputs()], {})
    want = root.run("m.air", arguments)
    had_parts = [op.type for op in file.graph[0].op if PARTS in op.attr]
    for op in file.graph[0].op:
        op.attr.pop(PARTS, None)
    (root.files / "foreign.air").write_bytes(file.SerializeToString())
    refusal = rf"of type {had_parts[0]}.*`python -m npugraph parts` adds those of Ascend's operators"
    with pytest.raises(AssertionError, match=refusal):
        root.run("foreign.air", arguments)
    assert main(["parts", str(root.files / "foreign.air"), str(root.files / "whole.air")]) == 0
    assert f"{len(had_parts)} operators have got their parts" in capsys.readouterr().out
    for got, wanted in zip(root.run("whole.air", arguments), want, strict=True):
        assert np.array_equal(got, wanted)


def test_operators_that_nobody_knows_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = proto.ModelDef()
    graph = model.graph.add(name="g")
    graph.op.add(name="x", type="Data").output_desc.add(name="y")
    op = graph.op.add(name="norm", type="LRN")
    op.input.append("x:0")
    op.input_desc.add(name="x")
    op.output_desc.add(name="y")
    (tmp_path / "m.air").write_bytes(model.SerializeToString())
    assert main(["parts", str(tmp_path / "m.air"), str(tmp_path / "out.air")]) == 1
    assert "operator 'norm' of type LRN: no operator of torch_npu is known" in capsys.readouterr().err


@pytest.mark.parametrize("size", ["__import__('pathlib').Path('ran').touch()", "[9, 9][0]", "s0 if s0 else 1", "1.5"])
def test_sizes_of_strangers_are_not_evaluated(
    size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = proto.ModelDef()
    graph = model.graph.add(name="g")
    desc = graph.op.add(name="x", type="Data").output_desc.add(name="y", dtype=1)
    desc.attr["_meta"].s = f"Tensor(shape=[{size}, 4])".encode()
    op = graph.op.add(name="glu", type="SwiGlu", input=["x:0"])
    op.input_desc.add(name="x", dtype=1)
    op.output_desc.add(name="y", dtype=1)
    (tmp_path / "m.air").write_bytes(model.SerializeToString())
    assert main(["parts", "m.air", "out.air"]) == 1
    assert "operator 'glu' of type SwiGlu: " in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()


def test_an_operator_that_cannot_be_taken_apart_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = proto.ModelDef()
    graph = model.graph.add(name="g")
    desc = graph.op.add(name="x", type="Data").output_desc.add(name="y", dtype=1)
    desc.shape.dim.extend([2, 4])
    rotary = graph.op.add(name="rotary", type="ApplyRotaryPosEmb", input=["x:0"] * 4)
    glu = graph.op.add(name="glu", type="SwiGlu", input=["x:0"])
    for op, names in ((rotary, ("query", "key", "cos", "sin")), (glu, ("x",))):
        for name in names:
            op.input_desc.add(name=name, dtype=1)
    rotary.output_desc.add(name="query", dtype=1)
    rotary.output_desc.add(name="key", dtype=1)
    glu.output_desc.add(name="y", dtype=1)
    (tmp_path / "m.air").write_bytes(model.SerializeToString())
    assert main(["parts", str(tmp_path / "m.air"), str(tmp_path / "out.air")]) == 1
    error = capsys.readouterr().err
    assert "operator 'rotary' of type ApplyRotaryPosEmb: npu.npu_apply_rotary_pos_emb" in error and "'glu'" not in error


def test_a_file_that_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.air").write_bytes(b"no model")
    assert main(["parts", str(tmp_path / "m.air"), str(tmp_path / "out.air")]) == 2
    assert not (tmp_path / "out.air").exists() and "m.air" in capsys.readouterr().err
