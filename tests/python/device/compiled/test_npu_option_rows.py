# SPDX-License-Identifier: Apache-2.0
"""Promises of options, captures and caches, over tensors of npu. tests/python/backend tests more of each on cpu."""

from __future__ import annotations

import re
import stat

import pytest
import torch
import torch_npu
from torch._dynamo.utils import counters

import npugraph
import npugraph_ex
from npugraph.stored import container
from tests.python.backend.checks import compile_ex, task_names

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def no_grad():
    npugraph.reset()
    with torch.no_grad():
        yield


def attend(x):
    return torch.softmax(torch.sort(x @ x.t())[0], -1) @ x


def double(x):
    return x * 2 + 1


def rows(n: int) -> torch.Tensor:
    return torch.randn(n, 16, device="npu")


def run(fn, *calls: torch.Tensor, **arguments) -> tuple[npugraph.Artifact, list[str]]:
    """Calls ``fn``, compiled, and checks that the results are right and on npu. Returns the only artifact, and the mode
    of each call."""
    compiled, modes = compile_ex(fn, **arguments), []
    for x in calls:
        with npugraph.task_log() as log:
            got = compiled(x)
        modes.append("/".join(sorted({record.mode for record in log})))
        assert got.device.type == "npu"
        torch.testing.assert_close(got, fn(x))
    (artifact,) = npugraph.artifacts()
    return artifact, modes


@pytest.mark.feature("1.02", "12b.6")
def test_force_eager():
    def fn(x):
        return (x.sin().clone() * 2).cos()

    artifact, modes = run(fn, rows(4), rows(4), options={"force_eager": True})
    own = artifact.counters
    assert modes == ["eager"] * 2
    assert (own["eager_runs"], own["captures"], own["replays"]) == (2, 0, 0)
    assert "aten.clone" not in artifact.graph(artifact.stages[-3])
    assert len(artifact.tasks) == 1


@pytest.mark.feature("1.04", "3.05")
def test_sizes_share_memory_or_have_their_own():
    peaks = {}
    for reuse in (True, False):
        npugraph.reset()
        run(attend, *map(rows, (96, 128, 112)), dynamic=True, options={"reuse_graph_pool_in_same_fx": reuse})
        peaks[reuse] = sum(pool.peak_bytes for pool in npugraph.pools() if pool.name.split()[0] in ("arena", "scratch"))
    assert peaks[True] < 0.7 * peaks[False]


@pytest.mark.feature("1.07", "3.08")
def test_beyond_the_limit_of_captures_runs_are_eager():
    with pytest.warns(npugraph.NpugraphWarning, match="capture_limit=2 allows"):
        artifact, modes = run(double, *map(rows, (3, 4, 5, 3)), dynamic=True, options={"capture_limit": 2})
    assert modes == ["capture", "capture", "eager", "eager"]
    assert artifact.instances == []
    assert counters["npugraph_ex"][f"captured_{artifact.name}"] == 0


@pytest.mark.feature("1.08", "3.03")
def test_forced_captures_are_counted():
    artifact, modes = run(double, *[rows(3)] * 4, options={"force_recapture": True})
    assert modes == ["capture"] * 4
    assert counters["npugraph_ex"][f"recapture_due_to_force_recapture_{artifact.name}"] == 3


@pytest.mark.feature("3.03")
def test_a_cache_that_was_allocated_again_counts_once():
    def step(x, cache):
        cache.add_(x)
        return cache * 2

    compiled, x = compile_ex(step), rows(3)
    for _ in range(2):
        cache = torch.zeros_like(x)
        for _ in range(2):
            compiled(x, cache)
        torch.testing.assert_close(cache, 2 * x)
    assert counters["npugraph_ex"]["recapture_due_to_mutated_input_change_step_0"] == 1


@pytest.mark.feature("1.11", "2.03")
def test_remove_noop_ops():
    tasks = {}
    for on in (True, False):
        npugraph.reset()
        options = {"remove_noop_ops": on, "generate_code": False}
        artifact, _ = run(lambda x: x.sin().clone().cos(), rows(4), options=options)
        tasks[on] = task_names(artifact)
    assert tasks == {True: ["aten.sin.out", "aten.cos_"], False: ["aten.sin.out", "aten.clone", "aten.cos_"]}


@pytest.mark.feature("1.15")
def test_custom_passes():
    def to_cos(gm, example_inputs, config):
        for node in gm.graph.find_nodes(op="call_function", target=aten.sin.default):
            node.target = aten.cos.default

    for name in ("post_grad_custom_pre_pass", "post_grad_custom_post_pass"):
        x = rows(4)
        torch.testing.assert_close(compile_ex(lambda x: x.sin() * 2, options={name: to_cos})(x), x.cos() * 2)


def test_empty_cache_breaks_no_graph():
    def fn(x):
        y = x * 2
        torch.npu.empty_cache()
        return y + 1

    artifact, _ = run(fn, rows(3))
    assert not artifact.partitions


@pytest.mark.feature("1.20", "9.09")
def test_deadlock_check(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(double, rows(4), options={"deadlock_check": True, "name": "checked"}, dynamic=False)
    assert capsys.readouterr().out == "checked: [RESULT] No deadlock risks detected.\n"
    assert (tmp_path / "npugraph_deadlock_check" / "checked_0_filtered_deadlock_check.json").exists()
    npugraph._C.record_running_tasks("")


@pytest.mark.feature("1.24", "3.01")
@pytest.mark.parametrize(("dynamic", "compiles"), [(True, 1), (False, 3)])
def test_sizes_compile_or_capture(dynamic, compiles):
    compiled = compile_ex(double, dynamic=dynamic)
    for n in (3, 4, 5, 3):
        compiled(rows(n))
    assert (counters["npugraph_ex"]["compiles"], counters["npugraph_ex"]["captures"]) == (compiles, 3)


@pytest.mark.feature("3.04", "3.05")
def test_the_first_run_takes_the_memory_in_which_later_ones_compute():
    compiled, x, seen = compile_ex(attend, options={"clone_output": False}), rows(64), []
    for _ in range(2):
        with npugraph.task_log() as log:
            result = compiled(x)
        history = [e.what for p in npugraph.pools() if p.name == "arena attend_0#0" for e in p.history]
        seen.append((result.data_ptr(), {record.mode for record in log}, history))
    (first, capture, taken), (second, replay, later) = seen
    assert first == second
    assert (capture, replay) == ({"capture"}, {"replay"})
    assert taken == later
    assert "grow" in taken


@pytest.mark.feature("1.05", "3.06")
def test_inputs_are_staged_in_one_batch():
    compiled = compile_ex(lambda a, b: a * b + 1, options={"clone_input": True})
    a, b = rows(4), rows(4)
    for _ in range(2):
        with npugraph.task_log() as log:
            torch.testing.assert_close(compiled(a, b), a * b + 1)
        assert [(record.task, record.kind) for record in log if record.name == "stage_inputs"] == [(-1, "copy")]
    assert npugraph.artifacts()[0].memory["copied_bytes_per_replay"] == 2 * 4 * 16 * 4


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(16, 16, device="npu")

    def forward(self, x):
        return self.linear(x).relu()

    def drops(self, x):
        return torch.nn.functional.dropout(x, 0.5)


def cached(folder, method: str = "forward", **arguments):
    npugraph.reset()
    return npugraph_ex.inference.cache_compile(getattr(Model(), method), cache_dir=folder, **arguments)


@pytest.mark.feature("5.03", "11.17")
def test_what_cannot_be_cached(tmp_path):
    with pytest.raises(ValueError, match=r"cache_compile takes a bound method of a torch.nn.Module"):
        npugraph_ex.inference.cache_compile(Model())
    with pytest.raises(AssertionError, match=r"takes no random operators, but Model.drops calls aten\.\w+"):
        cached(tmp_path, "drops")(rows(3))


@pytest.mark.feature("5.04", "5.05", "5.09")
def test_the_file_of_a_cache(tmp_path, capsys):
    x = rows(3)
    torch.testing.assert_close(cached(tmp_path)(x), Model()(x))
    (path,) = tmp_path.rglob("compiled_module")
    assert re.fullmatch(
        r"Model_dynamic_aclgraphcache_\w+/(\w+/)?forward/compiled_module", str(path.relative_to(tmp_path))
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert container.read(path).meta["name"] == "Model.forward"
    text = npugraph_ex.inference.readable_cache(path)
    assert capsys.readouterr().out == f"{text}\n"
    assert "relu" in text
    assert "npu" in text
    torch.testing.assert_close(cached(tmp_path)(x), Model()(x))
    assert counters["npugraph_ex"]["compiles"] == 0
    path.write_bytes(path.read_bytes()[:4096])
    with pytest.warns(UserWarning, match=rf"the cache {path} is not used: it is damaged: 4096 bytes"):
        torch.testing.assert_close(cached(tmp_path)(x), Model()(x))


@pytest.mark.feature("5.07")
def test_the_first_call_of_a_loaded_function_checks_sizes(tmp_path):
    cached(tmp_path, dynamic=False)(rows(3))
    function = cached(tmp_path, dynamic=False)
    with pytest.warns(UserWarning, match="compiled again"):
        assert function(rows(4)).shape == (4, 16)


@pytest.mark.feature("10.02")
def test_nearest_upsampling_stays_whole():
    def enlarged(x):
        return torch.nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")

    artifact, _ = run(enlarged, torch.randn(1, 2, 3, 4, device="npu"))
    graph = artifact.graph("import")
    assert graph.count("= aten.upsample_nearest2d(") == 1
    assert "aten.index" not in graph and "aten._unsafe_index" not in graph


CORPUS = {
    "complex": lambda x: torch.view_as_real(torch.polar(x, x)),
    "cumulative": lambda x: torch.logcumsumexp(x, 1),
    "fourier": lambda x: torch.fft.rfft(x).abs(),
    "linear algebra": lambda x: torch.linalg.solve(x @ x.t() + 4 * torch.eye(4, device="npu"), x),
    "search": lambda x: torch.searchsorted(x[0].sort()[0], x),
    "special": lambda x: torch.special.erfcx(x) + torch.special.i1(x),
    "unfold": lambda x: torch.nn.functional.unfold(x[None, None], 2),
}


@pytest.mark.feature("10.04")
@pytest.mark.parametrize("name", CORPUS)
def test_operators_that_are_not_generated(name):
    artifact, modes = run(CORPUS[name], rows(4), rows(4))
    assert modes == ["capture", "replay"]
    assert not artifact.partitions
    assert any(not task.startswith("loop.") for task in task_names(artifact))


def test_who_reads_or_writes_a_released_weight_is_told():
    model = torch.nn.Linear(16, 8, device="npu")
    x = rows(4)
    compiled = compile_ex(model, options={"release_original_weights": True})
    with torch.autocast("npu", torch.bfloat16):
        expected = compiled(x)
    for use in (
        lambda: model(x),
        lambda: model.weight.sum(),
        lambda: model.weight.zero_(),
        lambda: model.weight.cpu(),
        lambda: str(model.weight),
        lambda: torch_npu.get_npu_format(model.weight),
        lambda: model.load_state_dict(torch.nn.Linear(16, 8).state_dict()),
    ):
        with pytest.raises(RuntimeError, match=r"memory of weight .* was given back: graph Linear_0"):
            use()
    with torch.autocast("npu", torch.bfloat16):
        assert torch.equal(compiled(x), expected)
