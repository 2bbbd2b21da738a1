# SPDX-License-Identifier: Apache-2.0
"""The files of TORCH_COMPILE_DEBUG=1 in GE mode: where they are, and that they show the graph of GE at its stages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from google.protobuf import text_format

import npugraph
import torchair
from npugraph.ge import proto

pytestmark = pytest.mark.feature("9.01")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder into which torch puts its files."""
    npugraph.reset()
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "1")
    with torch._dynamo.config.patch(debug_dir_root=str(tmp_path)):
        yield tmp_path


def run(config: torchair.CompilerConfig | None = None, *, grad: bool = False) -> None:
    fast = torch.compile(lambda x: x.sin() + 1, backend=torchair.get_npu_backend(config))
    x = torch.ones(3, requires_grad=grad)
    fast(x).sum().backward() if grad else fast(x)


def files(folder: Path, phase: str = "forward") -> list[Path]:
    (found,) = folder.glob(f"run_*/torchair/model__*/{phase}")
    return sorted(found.iterdir())


def test_names_and_numbers(folder: Path) -> None:
    run()
    assert [path.name for path in files(folder)] == [
        "000_aot_forward_graph.txt",
        "001_aot_forward_original_ge_graph.pbtxt",
        "002_aot_forward_graph_after_normalise.pbtxt",
        "003_aot_forward_optimized_ge_graph.pbtxt",
    ]
    assert not list(folder.glob("run_*/npugraph_ex"))
    (log,) = folder.glob("run_*/torchair/debug.log")
    assert "[INFO] start compile graph: graph_" in log.read_text()
    original, after, optimized = (path.read_text() for path in files(folder)[1:])
    assert 'op: "Sin"' in original and "_input_name_key" not in original
    assert "_input_name_key" in after and optimized == after


def test_a_backward_graph_has_a_folder(folder: Path) -> None:
    run(grad=True)
    for phase in ("forward", "backward"):
        names = [path.name for path in files(folder, phase)]
        assert [name for name in names if name.endswith("_original_ge_graph.pbtxt")] == [
            f"001_aot_{phase}_original_ge_graph.pbtxt"
        ]


@pytest.mark.usefixtures("order_is_missing")
def test_each_graph_between_eager_operators_has_files(folder: Path) -> None:
    with torch.no_grad():
        torch.compile(lambda x: torch.sort(x + 1)[0] * 2, backend=torchair.get_npu_backend())(torch.ones(3))
    names = [path.name for path in files(folder)]
    assert [name for name in names if "original" in name] == [
        "001_aot_forward_original_ge_graph.pbtxt",
        "004_aot_forward_original_ge_graph.pbtxt",
    ]


def test_each_backend_has_a_log_of_its_own(folder: Path) -> None:
    fast, x = torch.compile(torch.sin, backend=torchair.get_npu_backend()), torch.ones(3, requires_grad=True)
    loss = fast(x).sum()
    torch.compile(torch.cos, backend="npugraph_ex")(torch.ones(3))
    loss.backward()  # compiles the backward graph of GE
    ge, ex = (next(folder.glob(f"run_*/{name}/debug.log")).read_text() for name in ("torchair", "npugraph_ex"))
    assert ge.count("start compile graph: ") == 2 and "start compile graph: " not in ex


def test_an_export_has_files(folder: Path) -> None:
    config = torchair.CompilerConfig()
    config.debug.graph_dump.type = "txt"
    config.debug.graph_dump.path = folder
    torchair.dynamo_export(torch.ones(3), model=lambda x: x.sin(), export_path=folder, config=config)
    assert [path.name for path in files(folder)] == [
        "000_aot_forward_graph.txt",
        "001_aot_forward_original_ge_graph.txt",
        "002_aot_forward_graph_after_normalise.txt",
        "003_aot_forward_optimized_ge_graph.txt",
    ]
    for stage, is_normalised in (("original", False), ("optimized", True)):
        (dumped,) = folder.glob(f"dynamo_{stage}_graph_0_*.txt")
        assert ("_input_name_key" in dumped.read_text()) == is_normalised


def test_the_kind_is_that_of_graph_dump(folder: Path) -> None:
    config = torchair.CompilerConfig()
    config.debug.graph_dump.type = "txt"
    config.debug.graph_dump.path = folder
    run(config)
    shown = {re.sub(r"^\d+_aot_forward_(\w+)_ge_graph$", r"\1", path.stem): path for path in files(folder)}
    for stage in ("original", "optimized"):
        (dumped,) = folder.glob(f"dynamo_{stage}_graph_*.txt")
        text = shown[stage].read_text()
        assert text == dumped.read_text()
        ops = text_format.Parse(text, proto.GraphDef()).op
        assert [op.type for op in ops][1] == "Sin"
        assert all(("_input_name_key" in op.attr) == (stage == "optimized") for op in ops)


def test_a_full_disk_harms_no_compile(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    run()
    assert any("No space left on device" in record.getMessage() for record in caplog.records)
