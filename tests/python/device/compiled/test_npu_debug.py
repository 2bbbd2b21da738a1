# SPDX-License-Identifier: Apache-2.0
"""Debug files and dumps of graphs on npu, and operators that save tensors at every replay."""

from __future__ import annotations

import re
import runpy

import pytest
import torch
import torch_npu

import npugraph


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


def compile_ex(fn, **options):
    return torch.compile(fn, backend="npugraph_ex", fullgraph=True, options=options)


@pytest.mark.feature("9.01", "2.23")
def test_graphs_on_npu_run(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "1")

    def fn(x, y, gamma):
        normed, _, total = torch.ops.npu.npu_add_rms_norm(x, y, gamma)
        return normed * torch.tensor([2.0], device=x.device), total

    inputs = [torch.randn(4, 8, device="npu"), torch.randn(4, 8, device="npu"), torch.ones(8, device="npu")]
    with torch._dynamo.config.patch(debug_dir_root=str(tmp_path)):
        want = compile_ex(fn)(*inputs)
    torch.testing.assert_close(want, fn(*inputs))
    graphs = sorted(tmp_path.rglob("*.txt"))
    assert len(graphs) > 2
    for path in graphs:
        results = runpy.run_path(str(path))["GraphModule"]()(*inputs)
        torch.testing.assert_close(tuple(results), want)
        assert all(result.device.type == "npu" for result in results)
    (code,) = tmp_path.rglob("output_code.py")
    torch.testing.assert_close(tuple(runpy.run_path(str(code))["kernel"](*inputs)), want)


@pytest.mark.feature("9.05", "2.22", "1.19")
@pytest.mark.parametrize("stage", ["optimized", "original"])
def test_dumps_of_npu_tensors(tmp_path, stage) -> None:
    compiled = compile_ex(
        lambda x: (x.sin() + 1).cos(), dump_tensor_data=True, data_dump_stage=stage, data_dump_dir=str(tmp_path)
    )
    for value in range(3):
        x = torch.full((4,), float(value), device="npu")
        torch.testing.assert_close(compiled(x), (x.sin() + 1).cos())
    names = {path.name for path in (tmp_path / "worldsize1_global_rank0").iterdir()}
    assert names == {f"{node}_device_0_{i}.pt" for node in ("l_x_", "sin", "add", "cos") for i in range(3)}
    for count in range(3):
        sin = torch.load(tmp_path / f"worldsize1_global_rank0/sin_device_0_{count}.pt")
        assert sin.is_cpu
        torch.testing.assert_close(sin, torch.full((4,), float(count)).sin())


@pytest.mark.feature("9.05", "9.06")
@pytest.mark.parametrize("stage", ["optimized", "original"])
def test_what_the_program_saves_itself_is_not_dumped(stage: str, tmp_path) -> None:
    own = f"{tmp_path}/own"  # before: Dynamo does not trace pathlib of Python 3.14

    def fn(x):
        y, z = x.sin(), x.cos()
        torch_npu.save_npugraph_tensor(y, save_path=own + "/y.pt", overwrite=True)
        torch_npu.save_npugraph_tensor([z, x], save_path=own + "/z.pt", overwrite=True)
        return y * z

    options = {"dump_tensor_data": True, "data_dump_dir": str(tmp_path), "data_dump_stage": stage}
    compile_ex(fn, **options)(torch.ones(4, device="npu"))
    names = {path.name for path in (tmp_path / "worldsize1_global_rank0").iterdir()}
    assert names == {"mul_device_0_0.pt"}
    assert len(list((tmp_path / "own").iterdir())) == 2


@pytest.mark.feature("3.15", "9.06")
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_single_tensors_are_saved_and_printed_at_every_replay(device: str, tmp_path, capsys) -> None:
    path = f"{tmp_path}/y.pt"

    def fn(x):
        y = x * 2
        torch_npu.save_npugraph_tensor(y, save_path=path)
        torch_npu.print_npugraph_tensor(y, tensor_name="y")
        return y + 1

    compiled = compile_ex(fn)
    for value in range(3):
        compiled(torch.full((2,), float(value), device=device))
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["captures"] == 1
    assert artifact.counters["replays"] == 3
    names = [f"y_device_{0 if device == 'npu' else 'cpu'}_{i}.pt" for i in range(3)]
    assert [torch.load(tmp_path / name).tolist() for name in names] == [[0, 0], [2, 2], [4, 4]]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert re.findall(r"^y=tensor\(\[(\d)\.", capsys.readouterr().out, re.MULTILINE) == ["0", "2", "4"]


def test_what_another_stream_prints_in_a_capture_waits_for_replays(capsys) -> None:
    side = torch.npu.Stream()

    def fn(x):
        z = x.cumsum(0)
        with torch.npu.stream(side):
            y = x * 2
            torch_npu.print_npugraph_tensor(y, tensor_name="y")
        torch.npu.current_stream().wait_stream(side)
        return y + z

    compiled, x, graph = compile_ex(fn), torch.ones(2, device="npu"), torch.npu.NPUGraph()
    with torch.no_grad():
        compiled(x)
        capsys.readouterr()
        with torch.npu.graph(graph):
            compiled(x)
        assert capsys.readouterr().out == ""
        for value in (3, 5):
            x.fill_(value)
            graph.replay()
    assert re.findall(r"^y=tensor\(\[(\d*)\.", capsys.readouterr().out, re.MULTILINE) == ["6", "10"]


@pytest.mark.feature("3.13", "9.11")
def test_labels_on_npu() -> None:
    compiled = compile_ex(lambda x: x.sin() + 1)
    x = torch.ones(4, device="npu")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(2):
            compiled(x)
    counts = {event.key: event.count for event in profiler.key_averages()}
    assert counts["npu_fx_compiler inference"] == counts["acl_graph_replay"] == 2
    assert counts["acl_graph_capture"] == 1
