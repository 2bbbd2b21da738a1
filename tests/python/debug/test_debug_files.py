# SPDX-License-Identifier: Apache-2.0
"""The files of TORCH_COMPILE_DEBUG=1: their names, and that each graph in them computes what eager does."""

from __future__ import annotations

import json
import logging
import os
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch.testing._internal.distributed.fake_pg import FakeStore

import npugraph
import npugraph_ex
from tests.python.backend.checks import assert_same, compile_ex
from tests.python.forks import run_python


@pytest.fixture
def folder(monkeypatch, tmp_path) -> Iterator[Path]:
    """Yields the folder into which torch puts its files. Our files are in the only directory npugraph_ex below it."""
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "1")
    with torch._dynamo.config.patch(debug_dir_root=str(tmp_path)):
        yield tmp_path


def ours(folder: Path) -> Path:
    (found,) = folder.glob("run_*/npugraph_ex")
    assert re.fullmatch(rf"run_[\d_]+-pid_{os.getpid()}", found.parent.name)
    return found


def model(folder: Path) -> Path:
    (found,) = ours(folder).glob("model__*")
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def graph_of(path: Path) -> torch.nn.Module:
    return runpy.run_path(str(path))["GraphModule"]()


def step(x, w, cache):
    h = torch.softmax(x @ w, -1)
    cache.copy_(cache + h.clone())
    return h @ w


def inputs_of_step():
    return torch.randn(16, 32), torch.randn(32, 32), torch.zeros(16, 32)


@pytest.mark.feature("9.01", "12e.5")
def test_every_graph_runs_and_equals_eager(folder) -> None:
    inputs = inputs_of_step()
    given = [x.clone() for x in inputs]
    want = step(*given)
    with torch.no_grad():
        compile_ex(step)(*[x.clone() for x in inputs])
    graphs = sorted(model(folder).rglob("*.txt"))
    assert len(graphs) > 4
    for path in graphs:
        own = [x.clone() for x in inputs]
        with torch.no_grad():
            (got,) = graph_of(path)(*own)
        assert_same((got, own), (want, given), exact=False)


def beside(x, a, b):
    marks = torch.ops.npugraph_ex
    with npugraph_ex.scope.limit_core_num(1, 2):
        marks.scope_enter(["_user_stream_label"], ["side"])
        y = (x @ a).clone().tanh() @ a
        marks.tagged_event_record("done")
        marks.scope_exit()
    z = (x @ b).tanh() @ b
    marks.tagged_event_wait("done")
    return y + z


@pytest.mark.feature("2.01", "9.01", "9.02")
def test_streams_are_in_every_graph_and_trace(folder) -> None:
    inputs = [torch.randn(8, 8) for _ in range(3)]
    with torch.no_grad():
        compile_ex(beside)(*inputs)
        want = beside(*inputs)
        forward = model(folder) / "forward"
        graphs = sorted(forward.glob("*.txt"))
        assert len(graphs) > 2
        for path in graphs:
            text = path.read_text()
            scopes = re.findall(r"scope_enter\.default\((\[.*?\], \[.*?\])\)", text)
            limits, stream = "['_op_aicore_num', '_op_vectorcore_num'], ['1', '2']", "['_user_stream_label'], ['side']"
            assert sorted(scopes) == [limits, stream]
            first, last = text.index("tagged_event_record"), text.index("tagged_event_wait")
            assert text.index(stream) < text.index("aten.mm") < first < last < text.index("aten.add")
            assert_same(graph_of(path)(*inputs)[0], want, exact=False)
        code = forward / "output_code.py"
        assert "import npugraph\n" in code.read_text()
        assert_same(runpy.run_path(str(code))["kernel"](*inputs)[0], want, exact=False)
    (path,) = forward.glob("graph_*.json")
    launches = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    assert {event["tid"] for event in launches} == {0, 1}
    limits = {"cube_core_num": 1, "vector_core_num": 2}
    assert all(event["args"]["limits"] == limits for event in launches if event["tid"] == 1)
    last = next(event for event in launches if event["args"]["waits"])
    waited = [event for event in launches if event["args"]["task"] in last["args"]["waits"]]
    assert last["tid"] == 0 and [event["tid"] for event in waited] == [1]
    assert waited[0]["ts"] + waited[0]["dur"] <= last["ts"]
    changed = (ours(folder) / "debug.log").read_text()
    assert "aten.clone.default" in changed and "scope_enter" not in changed


@pytest.mark.feature("9.01", "12e.5")
def test_names_and_numbers_of_the_files(folder) -> None:
    with torch.no_grad():
        compile_ex(step)(*inputs_of_step())
    (artifact,) = npugraph.artifacts()
    assert names(model(folder)) == ["dynamo_out_graph.txt", "forward"]
    files = names(model(folder) / "forward")
    steps = [name for name in files if name.endswith((".txt", ".ir"))]
    assert steps[0] == "000_aot_forward_graph.txt"
    assert "001_aot_forward_graph_after_remove_noop_ops.txt" in steps
    assert "002_aot_forward_graph_after_import.txt" in steps
    numbers = sorted({int(name[:3]) for name in steps})
    assert numbers == list(range(len(numbers)))
    stages = [re.fullmatch(r"\d{3}_aot_forward_graph(?:_after_(.+))?\.(?:txt|ir)", name)[1] for name in steps]
    assert set(stages) <= {None, *artifact.stages}
    order = [artifact.stages.index(stage) for stage in stages if stage]
    assert order == sorted(order)
    captures = [name for name in files if name.startswith("graph_")]
    assert len(captures) == 1
    assert re.fullmatch(rf"graph_0_id_\d+_rank_0_pid_{os.getpid()}_ts_\d+\.json", captures[0])
    assert set(files) - set(steps) - set(captures) == {"output_code.py"}


@pytest.mark.feature("9.01")
def test_our_own_text_lies_beside(folder) -> None:
    with torch.no_grad():
        compile_ex(step)(*inputs_of_step())
    (artifact,) = npugraph.artifacts()
    texts = {path.stem.split("_after_")[1]: path for path in sorted((model(folder) / "forward").glob("*.ir"))}
    assert len(texts) > 1 and list(texts)[-1] == "plan"
    for stage, path in texts.items():
        assert path.read_text() == artifact.graph(stage)
        assert path.with_suffix(".txt").exists() == (stage != "plan")


@pytest.mark.feature("9.01")
def test_the_layout_of_a_process(tmp_path) -> None:
    """The process is one that a user would start. The layout includes torch's own file."""
    program = (
        "import torch\n"
        "compiled = torch.compile(lambda x: x.sin() + 1, backend='npugraph_ex')\n"
        "with torch.no_grad():\n"
        "    for size in (4, 4): compiled(torch.ones(size))\n"
    )
    variables = os.environ | {"TORCH_COMPILE_DEBUG": "1", "TORCH_COMPILE_DEBUG_DIR": str(tmp_path)}
    done = run_python("-c", program, env=variables, check=True)
    found = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    plain = [
        re.sub(r"run_[\d_]+-pid_\d+", "run", re.sub(r"id_\d+_rank_0_pid_\d+_ts_\d+", "id", name)) for name in found
    ]
    below = "torch_compile_debug/run"
    assert [name for name in plain if not name.startswith("torch_compile_debug/tlparse")] == [
        f"{below}/npugraph_ex/debug.log",
        f"{below}/npugraph_ex/model__0/dynamo_out_graph.txt",
        f"{below}/npugraph_ex/model__0/forward/000_aot_forward_graph.txt",
        f"{below}/npugraph_ex/model__0/forward/001_aot_forward_graph_after_import.ir",
        f"{below}/npugraph_ex/model__0/forward/001_aot_forward_graph_after_import.txt",
        f"{below}/npugraph_ex/model__0/forward/002_aot_forward_graph_after_plan.ir",
        f"{below}/npugraph_ex/model__0/forward/graph_0_id.json",
        f"{below}/npugraph_ex/model__0/forward/output_code.py",
        f"{below}/torchdynamo/debug.log",
    ]
    assert "[DEBUG]" not in done.stderr


def test_perf_finds_the_names_of_generated_functions() -> None:
    program = (
        "import os, pathlib, torch\n"
        "compiled = torch.compile(lambda x: (x.sin() + 1) * x, backend='npugraph_ex')\n"
        "with torch.no_grad(): compiled(torch.ones(4))\n"
        "names = pathlib.Path(f'/tmp/perf-{os.getpid()}.map')\n"
        "print(names.read_text())\n"
        "names.unlink()\n"
    )
    variables = os.environ | {"NPUGRAPH_PERF_MAP": "1"}
    done = run_python("-c", program, env=variables, check=True)
    rows = [line.split(" ", 2) for line in done.stdout.strip().splitlines()]
    assert rows and all(int(begin, 16) > 0 and int(size, 16) > 0 and name for begin, size, name in rows)


@pytest.mark.feature("9.01", "2.02")
def test_training_has_two_folders(folder) -> None:
    w = torch.randn(8, 8, requires_grad=True)
    x = torch.randn(3, 8)

    def loss(x, w):
        return ((x @ w).tanh() * 2).sum()

    compile_ex(loss)(x, w).backward()
    assert {"forward", "backward"} <= set(names(model(folder)))
    forward = graph_of(model(folder) / "forward/000_aot_forward_graph.txt")
    result, *saved = forward(x, w)
    assert_same(result, loss(x, w), exact=False)
    want = w.grad.clone()
    for path in (model(folder) / "backward").glob("*.txt"):
        gradients = graph_of(path)(*saved, torch.ones(()))
        assert_same([g for g in gradients if g is not None], [want], exact=False)


@pytest.mark.feature("1.23")
def test_graphs_of_others_are_in_compile(folder) -> None:
    def backend(gm, inputs):
        return aot_module_simplified(gm, inputs, fw_compiler=lambda g, i: make_boxed_func(npugraph_ex.compile_fx(g, i)))

    compiled = torch.compile(lambda x: x.sin() + 1, backend=backend)
    with torch.no_grad():
        assert_same(compiled(torch.ones(3)), torch.ones(3).sin() + 1, exact=False)
    (found,) = ours(folder).glob("compile__*")
    assert names(found) == ["forward"]
    assert not list(ours(folder).glob("model__*"))


@pytest.mark.feature("2.02", "2.11")
def test_passes_of_the_user_are_steps(folder) -> None:
    def pre(gm, example_inputs, config) -> None:
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            node.target = torch.ops.aten.cos.default

    def post(gm, example_inputs, config) -> None:
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.cos.default):
            node.target = torch.ops.aten.sin.default

    options = {"post_grad_custom_pre_pass": pre, "post_grad_custom_post_pass": post}
    with torch.no_grad():
        compile_ex(lambda x: x.sin() + 1, options=options)(torch.ones(3))
    files = names(model(folder) / "forward")
    assert files[:3] == [
        "000_aot_forward_graph.txt",
        "001_aot_forward_graph_after_post_grad_custom_pre_pass.txt",
        "002_aot_forward_graph_after_post_grad_custom_post_pass.txt",
    ]
    texts = [(model(folder) / "forward" / name).read_text() for name in files[:3]]
    assert [("aten.sin" in text, "aten.cos" in text) for text in texts] == [(1, 0), (0, 1), (1, 0)]


class Table(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 4))

    def forward(self, x):
        return (x @ self.weight) * torch.tensor([1.0, float("inf"), 3.0, 4.0])


@pytest.mark.feature("2.23", "9.01")
@pytest.mark.parametrize("dynamic", [False, True])
def test_output_code_executes_and_equals_eager(folder, dynamic) -> None:
    table, x = Table(), torch.randn(5, 6)
    with torch.no_grad():
        want = compile_ex(table, dynamic=dynamic)(x)
        assert_same(want, table(x), exact=False)
        path = model(folder) / "forward/output_code.py"
        text = path.read_text()
        sources = re.findall(r"^#   \d+  (.+)$", text, re.MULTILINE)
        by_source = {"x": x, "weight": table.weight}
        inputs = [next((v for k, v in by_source.items() if f"'{k}'" in s or f".{k}" in s), 5) for s in sources]
        for names_ in (runpy.run_path(str(path)), executed(text)):
            assert_same(names_["forward"](*inputs)[0], want, exact=False)
            assert_same(names_["kernel"](*inputs)[0], want, exact=False)
    (artifact,) = npugraph.artifacts()
    assert all(f"#   {task.name} ({task.kind})" in text for task in artifact.tasks)


def executed(text: str) -> dict:
    names_: dict = {}
    exec(compile(text, "<text>", "exec"), names_)
    return names_


@pytest.mark.feature("2.23")
def test_output_code_checks_layouts_in_its_first_run(folder) -> None:
    with torch.no_grad():
        compile_ex(lambda x: x.sin() + 1)(torch.ones(3, 4))
        code = runpy.run_path(str(model(folder) / "forward/output_code.py"))
        with pytest.raises(AssertionError, match="expected size 4==3, stride 3==4"):
            code["kernel"](torch.ones(4, 3))
        code["kernel"](torch.ones(3, 4))
        code["kernel"](torch.ones(4, 3))


@pytest.mark.feature("12b.15")
@pytest.mark.parametrize(
    "name", ["forward", "kernel", "assert_size_stride", "return_self", "self", "import_torch_", "_0"]
)
def test_unusual_names_of_operators(folder, name) -> None:
    """Ascend's compiler edits generated code line by line as text, which such names break."""
    with torch.library._scoped_library("npugraph_names", "FRAGMENT") as library:
        library.define(f"{name}(Tensor x, str how) -> Tensor")
        library.impl(name, lambda x, how: x * 2 + len(how), "CompositeExplicitAutograd")
        library._register_fake(name, lambda x, how: torch.empty_like(x))
        op = getattr(torch.ops.npugraph_names, name).default
        fn = lambda x: op(x.sin(), 'def forward(self):\n    return (\'kernel\', """\\')  # noqa: E731
        x = torch.randn(4)
        with torch.no_grad():
            assert_same(compile_ex(fn)(x), fn(x), exact=False)
            paths = list(model(folder).rglob("*.txt"))
            assert len(paths) > 1
            for path in paths:
                assert_same(graph_of(path)(x)[0], fn(x), exact=False)
            code = runpy.run_path(str(model(folder) / "forward/output_code.py"))
            assert_same(code["kernel"](x)[0], fn(x), exact=False)


@pytest.mark.feature("9.01")
def test_graphs_inside_of_graphs(folder) -> None:
    def fn(x):
        return torch.cond((x.sum() > 0).float(), lambda x: x.sin(), lambda x: x.cos() + 1, (x,)) * 2

    x = torch.ones(3)
    with torch.no_grad(), pytest.warns(npugraph.NpugraphWarning):
        compile_ex(fn)(x)
        paths = list(model(folder).rglob("*.txt"))
        assert len(paths) >= 3
        for path in paths:
            for value in (x, -x):
                assert_same(graph_of(path)(value)[0], fn(value), exact=False)
        code = runpy.run_path(str(model(folder) / "forward/output_code.py"))
        assert_same(code["kernel"](-x)[0], fn(-x), exact=False)


@pytest.mark.feature("9.01")
def test_captures_are_chrome_traces(folder) -> None:
    compiled = compile_ex(step, dynamic=True)
    with torch.no_grad():
        for rows in (16, 16, 5):
            compiled(torch.randn(rows, 32), torch.randn(32, 32), torch.zeros(rows, 32))
    (artifact,) = npugraph.artifacts()
    paths = sorted((model(folder) / "forward").glob("graph_*.json"))
    assert [path.name.split("_id_")[0] for path in paths] == ["graph_0", "graph_1"]
    for path, instance in zip(paths, reversed(artifact.instances), strict=True):
        trace = json.loads(path.read_text())
        assert trace["otherData"] == {"artifact": artifact.name, "instance": instance.key}
        launches = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        assert [event["name"] for event in launches] == [task.name for task in artifact.tasks]
        assert [event["args"]["source"] for event in launches] == [task.source for task in artifact.tasks]
        assert launches[0]["ts"] == 0
        assert all(event["dur"] > 0 and event["tid"] == 0 for event in launches)


@pytest.mark.feature("9.01")
def test_saved_functions_are_those_without_files(folder, tmp_path) -> None:
    with torch.no_grad():
        compiled = compile_ex(lambda x: x.sin() + 1).aot_compile(((torch.ones(3),), {}))
        assert_same(compiled(torch.ones(3)), torch.ones(3).sin() + 1, exact=False)
        compiled.save_compiled_function(str(tmp_path / "saved"))
    assert list((model(folder) / "forward").glob("graph_*.json"))


@pytest.mark.feature("9.01", "9.02")
def test_the_log_file_has_every_level(folder, caplog) -> None:
    with torch.no_grad():
        compile_ex(step)(*inputs_of_step())
    text = (ours(folder) / "debug.log").read_text()
    assert "[DEBUG] step_0: remove_noop_ops\n  removed     1  aten.clone.default" in text
    assert "[EVENT] step_0: passes took " in text
    assert not [record for record in caplog.records if record.name == "npugraph" and record.levelno < logging.WARNING]


@pytest.mark.feature("9.01")
def test_ranks_have_folders_of_their_own(folder) -> None:
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=2, world_size=4)
    try:
        with torch.no_grad():
            compile_ex(lambda x: x.sin() + 1)(torch.ones(3))
    finally:
        torch.distributed.destroy_process_group()
    (found,) = folder.glob("run_*-rank_2/npugraph_ex/model__*/forward")
    assert [path.name.split("_pid_")[0].split("_rank_")[1] for path in found.glob("*.json")] == ["2"]


def test_without_the_variable_there_are_no_files(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv("TORCH_COMPILE_DEBUG", raising=False)
    with torch.no_grad(), torch._dynamo.config.patch(debug_dir_root=str(tmp_path)):
        compile_ex(step)(*inputs_of_step())
    assert not list(tmp_path.iterdir())


def test_a_full_disk_harms_no_compile(folder, monkeypatch, caplog) -> None:
    def fail(*_) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    x = torch.ones(3)
    with torch.no_grad():
        assert_same(compile_ex(lambda x: x.sin() + 1)(x), x.sin() + 1, exact=False)
    assert any("No space left on device" in record.getMessage() for record in caplog.records)
