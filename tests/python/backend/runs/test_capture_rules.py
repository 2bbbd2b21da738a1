# SPDX-License-Identifier: Apache-2.0
"""Options of captures and of the memory of graphs: their defaults are safe, and set options are obeyed."""

from __future__ import annotations

import concurrent.futures
import warnings

import pytest
import torch
from torch._dynamo.utils import counters

import npugraph
from tests.python.backend.checks import assert_same, compile_ex


@pytest.fixture(autouse=True)
def no_grad():
    npugraph.reset()
    with torch.no_grad():
        yield


def double(x):
    return x * 2 + 1


def held(name: str) -> int:
    return counters["npugraph_ex"][name]


def working_bytes() -> int:
    """Returns the bytes of all pools in which graphs compute, each at its largest."""
    return sum(pool.peak_bytes for pool in npugraph.pools() if pool.name.split()[0] in ("arena", "scratch"))


# --- results -------------------------------------------------------------------------------------------------------


@pytest.mark.feature("1.06", "3.07", "3.05")
@pytest.mark.parametrize("generate", [True, False])
@pytest.mark.parametrize("clone_output", [None, True, False])
def test_results_are_overwritten_only_where_the_user_says_so(clone_output, generate) -> None:
    options = {"generate_code": generate} | ({} if clone_output is None else {"clone_output": clone_output})
    compiled = compile_ex(double, options=options)
    first = compiled(torch.zeros(4))
    assert first.tolist() == [1] * 4
    second = compiled(torch.ones(4))
    assert second.tolist() == [3] * 4
    assert first.tolist() == ([3] * 4 if clone_output is False else [1] * 4)
    assert (first.data_ptr() == second.data_ptr()) == (clone_output is False)


@pytest.mark.feature("1.06", "3.07")
@pytest.mark.parametrize("clone_output", [True, False])
def test_results_that_are_inputs_stay_the_callers(clone_output) -> None:
    def fn(x, y):
        x.add_(1)
        return x, x[1:], y * 2, y.expand(3, 2)

    compiled = compile_ex(fn, options={"clone_output": clone_output})
    x, y = torch.zeros(4), torch.ones(2)
    same, window, doubled, expanded = compiled(x, y)
    assert same is x
    assert window.data_ptr() == x.data_ptr() + 4
    assert expanded.data_ptr() == y.data_ptr()
    other = torch.full((4,), 5.0)
    results = compiled(other, torch.full((2,), 7.0))
    assert x.tolist() == [1] * 4
    assert window.tolist() == [1] * 3
    assert results[1].tolist() == [6] * 3
    assert results[0] is other
    assert results[1].data_ptr() == other.data_ptr() + 4
    assert results[2].tolist() == [14, 14]
    assert doubled.tolist() == ([2, 2] if clone_output else [14, 14])
    assert expanded.tolist() == [[1, 1]] * 3


@pytest.mark.feature("1.06")
def test_results_that_operators_allocate_are_kept_too() -> None:
    def fn(x):
        return torch.sort(x)[0], torch.nonzero(x)

    compiled = compile_ex(fn, options={"clone_output": False})
    x, y = torch.tensor([3.0, 0, 2]), torch.tensor([0.0, 0, 9])
    first, places = compiled(x)
    assert_same((first, places), fn(x))
    second, others = compiled(y)
    assert_same((second, others), fn(y))
    assert first.data_ptr() == second.data_ptr()


@pytest.mark.feature("1.06", "3.05")
def test_a_kept_result_may_be_resized() -> None:
    compiled = compile_ex(double, options={"clone_output": False})
    first = compiled(torch.zeros(4))
    first.resize_(1000).fill_(8)
    second = compiled(torch.ones(4))
    assert second.tolist() == [3] * 4
    second.untyped_storage().resize_(0)
    assert compiled(torch.ones(4)).tolist() == [3] * 4


@pytest.mark.feature("1.04", "3.05")
@pytest.mark.no_red_zones  # with them, stale elements are NaN
@pytest.mark.parametrize(("reuse", "overwritten"), [(None, False), (True, True), (False, False)])
def test_sizes_share_the_memory_of_results_only_where_the_user_says_so(reuse, overwritten) -> None:
    options = {"clone_output": False} | ({} if reuse is None else {"reuse_graph_pool_in_same_fx": reuse})
    compiled = compile_ex(double, dynamic=True, options=options)
    large = compiled(torch.zeros(8))
    small = compiled(torch.ones(5))
    assert small.tolist() == [3] * 5
    assert large.tolist() == [3.0] * 5 + [1.0] * 3 if overwritten else [1] * 8
    assert (large.data_ptr() == small.data_ptr()) == overwritten
    again = compiled(torch.full((8,), 2.0))
    assert again.data_ptr() == large.data_ptr()
    assert again.tolist() == large.tolist() == [5] * 8


@pytest.mark.feature("3.05")
def test_stale_results_are_poisoned() -> None:
    options = {"clone_output": False, "reuse_graph_pool_in_same_fx": True}
    compiled = compile_ex(double, dynamic=True, options=options)
    large = compiled(torch.zeros(8))
    npugraph.poison_freed_memory()
    try:
        small = compiled(torch.ones(5))
    finally:
        npugraph.poison_freed_memory(False)
    assert small.tolist() == [3] * 5
    assert large[5:].isnan().all()


@pytest.mark.feature("1.06")
def test_results_of_training_graphs_are_never_overwritten() -> None:
    with torch.enable_grad():
        w = torch.ones(4, requires_grad=True)
        compiled = compile_ex(lambda x: (x * w).exp(), options={"clone_output": False, "clone_input": False})
        first, x = compiled(torch.zeros(4)), torch.ones(4)
        second = compiled(x)
        (first + second).sum().backward()
    torch.testing.assert_close(w.grad, torch.e * torch.ones(4))


# --- memory in which graphs compute --------------------------------------------------------------------------------


def attend(x):
    return torch.softmax(torch.sort(x @ x.t())[0], -1) @ x


def project(x):
    return torch.sigmoid(torch.sort(x @ x.t())[0] @ x)


def peak_of_sizes(**options) -> int:
    npugraph.reset()
    compiled = compile_ex(attend, dynamic=True, options=options)
    for n in (192, 256, 224):
        x = torch.randn(n, 16)
        assert_same(compiled(x), attend(x), exact=False)
    return working_bytes()


@pytest.mark.feature("1.04", "3.05")
def test_sizes_of_a_graph_need_the_memory_of_the_largest_or_of_all() -> None:
    alone = []
    for n in (192, 256, 224):
        npugraph.reset()
        compile_ex(attend, dynamic=True)(torch.randn(n, 16))
        alone.append(working_bytes())
    unset, shared, apart = (
        peak_of_sizes(),
        peak_of_sizes(reuse_graph_pool_in_same_fx=True),
        peak_of_sizes(reuse_graph_pool_in_same_fx=False),
    )
    assert unset == shared
    assert max(alone) <= shared < 1.6 * max(alone)  # a block grows by at least half
    assert apart == sum(alone)


def peak_of_two(pools) -> int:
    npugraph.reset()
    x = torch.randn(256, 16)
    for fn, pool in zip((attend, project), pools, strict=True):
        compiled = compile_ex(fn, options={} if pool is None else {"use_graph_pool": pool})
        for _ in range(2):
            assert_same(compiled(x), fn(x), exact=False)
    return working_bytes()


@pytest.mark.feature("1.03")
def test_graphs_of_one_pool_need_the_memory_of_the_largest() -> None:
    apart = peak_of_two((None, None))
    assert peak_of_two(((0, 1), (0, 2))) == apart
    shared = peak_of_two(((0, 1), (0, 1)))
    assert shared < 0.6 * apart
    (arena,) = [pool for pool in npugraph.pools() if pool.name == "arena pool (0, 1)#0"]
    assert sorted(arena.owners) == ["attend_0", "project_0"]
    assert shared == pytest.approx(arena.peak_bytes, rel=0.1)
    npugraph.reset()
    assert working_bytes() == 0


@pytest.mark.feature("1.03", "1.04")
def test_a_pool_of_ones_own_takes_the_place_of_the_one_of_all_sizes() -> None:
    """Without a pool of their own, the results of several sizes share memory."""
    options = {"clone_output": False, "reuse_graph_pool_in_same_fx": True}
    for pool in ({}, {"use_graph_pool": (0, 3)}):
        npugraph.reset()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled = compile_ex(double, dynamic=True, options=options | pool)
            large, small = compiled(torch.zeros(8)), compiled(torch.ones(5))
        assert small.tolist() == [3] * 5
        assert (large.tolist() == [1] * 8) == (large.data_ptr() != small.data_ptr()) == bool(pool)
        named = [
            "'reuse_graph_pool_in_same_fx' has no effect with use_graph_pool=(0, 3)" in str(w.message) for w in caught
        ]
        assert named.count(True) == len(pool)
    npugraph.reset()
    compile_ex(attend, options={"use_graph_pool": (0, 3)})(torch.randn(64, 16))
    names = [pool.name for pool in npugraph.pools() if pool.live_bytes]
    assert names
    assert all(" pool (0, 3)#" in name for name in names)


@pytest.mark.feature("1.03")
def test_calls_at_the_same_time_have_blocks_of_their_own() -> None:
    options = {"use_graph_pool": (5, 0), "clone_input": True}
    compiled = [compile_ex(fn, dynamic=True, options=options) for fn in (attend, project)]
    inputs = [torch.randn(n, 8) for n in (40, 56, 48)]
    expected = [[fn(x) for x in inputs] for fn in (attend, project)]

    def call(k: int) -> None:
        with torch.no_grad():
            for i in range(30):
                assert_same(compiled[k % 2](inputs[i % 3]), expected[k % 2][i % 3], exact=False)

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(call, range(4)))


@pytest.mark.feature("3.04")
def test_the_first_run_captures_and_the_next_one_replays_in_the_same_memory() -> None:
    compiled, x = compile_ex(attend), torch.randn(64, 16)
    seen = []
    for _ in range(2):
        with npugraph.task_log() as log:
            compiled(x)
        pools = {pool.name: [event.what for event in pool.history] for pool in npugraph.pools()}
        seen.append(({record.mode for record in log}, pools["arena attend_0#0"]))
    assert seen == [({"capture"}, ["lease", "grow"]), ({"replay"}, ["lease", "grow"])]
    assert held("captures") == held("captured_attend_0") == 1


# --- inputs --------------------------------------------------------------------------------------------------------


@pytest.mark.feature("1.05", "12b.7")
def test_no_tensor_of_the_caller_is_written_unless_he_says_so() -> None:
    """In Ascend's graph mode, later calls overwrite a tensor of the first caller if ``clone_input`` is off."""
    for options in ({}, {"clone_input": True}):
        npugraph.reset()
        compiled = compile_ex(double, options=options)
        first = torch.zeros(4)
        compiled(first)
        assert compiled(torch.ones(4)).tolist() == [3] * 4
        assert first.tolist() == [0] * 4


@pytest.mark.feature("1.05")
def test_without_clones_later_inputs_are_copied_over_the_first_one() -> None:
    compiled = compile_ex(double, options={"clone_input": False})
    first, second = torch.zeros(4), torch.ones(4)
    assert compiled(first).tolist() == [1] * 4
    assert npugraph.artifacts()[0].memory["copied_bytes_per_replay"] == 0
    assert compiled(second).tolist() == [3] * 4
    assert npugraph.artifacts()[0].memory["copied_bytes_per_replay"] == 16
    assert first.tolist() == second.tolist() == [1] * 4
    first.fill_(7)
    assert compiled(first).tolist() == [15] * 4
    assert second.tolist() == [1] * 4


@pytest.mark.feature("1.02", "1.05", "1.06")
@pytest.mark.parametrize("clone_input", [True, False])
def test_without_captures_nothing_is_staged_or_kept(clone_input) -> None:
    options = {"force_eager": True, "clone_input": clone_input, "clone_output": False}
    compiled = compile_ex(double, options=options)
    first = torch.zeros(4)
    result = compiled(first)
    assert compiled(torch.ones(4)).tolist() == [3] * 4
    assert first.tolist() == [0] * 4
    assert result.tolist() == [1] * 4
    assert npugraph.artifacts()[0].memory["copied_bytes_per_replay"] == 0


@pytest.mark.feature("1.05")
def test_a_strided_first_input_gets_its_own_elements_only() -> None:
    compiled = compile_ex(double, options={"clone_input": False})
    whole = torch.zeros(3, 4)
    compiled(whole[:, :2])
    assert compiled(torch.ones(3, 4)[:, :2]).tolist() == [[3, 3]] * 3
    assert whole.tolist() == [[1, 1, 0, 0]] * 3


@pytest.mark.feature("1.05")
@pytest.mark.parametrize("swap", ["inputs", "windows", "resized", "freed"])
def test_results_are_right_where_the_first_inputs_are_in_the_way(swap) -> None:
    compiled = compile_ex(lambda a, b: a - 2 * b, options={"clone_input": False})
    base = torch.arange(8.0)
    a, b = base[:4], torch.full((4,), 10.0)
    compiled(a, b)
    if swap == "inputs":
        assert compiled(b, a).tolist() == [10, 8, 6, 4]
        assert b.tolist() == [10] * 4
    elif swap == "windows":
        assert compiled(base[2:6], b).tolist() == [-18, -17, -16, -15]
        assert base.tolist() == list(range(8))
    else:
        other = torch.ones(4)
        assert compiled(other, b).tolist() == [-19] * 4
        base.untyped_storage().resize_(0 if swap == "freed" else 4000)
        assert compiled(other, b).tolist() == [-19] * 4
        assert compiled(torch.zeros(4), b).tolist() == [-20] * 4
    del a, b, base
    assert compiled(torch.ones(4), torch.ones(4)).tolist() == [-1] * 4


@pytest.mark.feature("1.05", "3.02", "3.06")
def test_inputs_are_staged_in_one_batch() -> None:
    w = torch.nn.Parameter(torch.full((4,), 3.0))

    def fn(a, b, cache, back):
        cache.add_(a)
        return a * b + w, back[1:]

    compiled = compile_ex(fn, options={"clone_input": True})
    cache, back = torch.zeros(4), torch.arange(4.0)
    arguments = torch.ones(4), torch.full((4,), 2.0), cache, back
    for _ in range(3):
        with npugraph.task_log() as log:
            result, window = compiled(*arguments)
        staged = [record for record in log if record.name == "stage_inputs"]
        assert len(staged) == 1
        assert (staged[0].task, staged[0].kind) == (-1, "copy")
        assert result.tolist() == [5] * 4
    assert cache.tolist() == [3] * 4
    assert window.data_ptr() == back.data_ptr() + 4
    memory = npugraph.artifacts()[0].memory
    assert memory["copied_bytes_per_replay"] == 2 * 16  # only a and b are copied
    assert memory["arena_bytes"] >= 2 * 16


@pytest.mark.feature("3.06")
def test_staged_inputs_take_memory_of_the_graph() -> None:
    x = torch.randn(1000)
    arenas = []
    for options in ({}, {"clone_input": True}):
        npugraph.reset()
        assert_same(compile_ex(double, options=options)(x), double(x))
        arenas.append(npugraph.artifacts()[0].memory["arena_bytes"])
    assert arenas[1] - arenas[0] >= 4000
    expanded = torch.ones(4, 1).expand(4, 5)
    compiled = compile_ex(double, options={"clone_input": True})
    assert_same(compiled(expanded), double(expanded))


# --- keys ----------------------------------------------------------------------------------------------------------


def calls_with_limit(limit: int, sizes, fn=double) -> tuple[list[str], list[str]]:
    """Calls `fn` once with each of `sizes`. Returns the warnings, and the mode of each call."""
    compiled = compile_ex(fn, dynamic=True, options={"capture_limit": limit})
    modes = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in sizes:
            x = torch.randn(n)
            with npugraph.task_log() as log:
                assert_same(compiled(x), fn(x))
            modes += {record.mode for record in log}
    return [str(w.message) for w in caught if issubclass(w.category, npugraph.NpugraphWarning)], modes


@pytest.mark.feature("1.07", "3.08", "11.12")
def test_a_graph_beyond_the_limit_ends_captures() -> None:
    sibling = compile_ex(lambda x: x - 1, options={"capture_limit": 2})
    sibling(torch.ones(3))
    said, modes = calls_with_limit(2, [3, 4, 3, 5, 3, 6, 4])
    assert modes == ["capture", "capture", "replay", "eager", "eager", "eager", "eager"]
    assert len(said) == 1
    assert said[0].startswith(
        "double_0 has 2 captured graphs, as many as capture_limit=2 allows, and this call needs another one (s"
    )
    assert "All of them are dropped" in said[0]
    assert "Raise capture_limit" in said[0]
    assert held("captured_double_0") == 0
    (artifact,) = [a for a in npugraph.artifacts() if a.name == "double_0"]
    assert artifact.instances == []
    with npugraph.task_log() as log:
        sibling(torch.ones(3))
    assert {record.mode for record in log} == {"replay"}


@pytest.mark.feature("1.07", "12b.6")
def test_the_graph_beyond_the_limit_empties_memory_and_counts_no_capture() -> None:
    options = {"capture_limit": 2, "reuse_graph_pool_in_same_fx": False, "clone_output": False}
    compiled = compile_ex(attend, dynamic=True, options=options)
    for n in (192, 256):
        compiled(torch.randn(n, 16))
    (artifact,) = npugraph.artifacts()

    def live() -> dict[str, int]:
        return {pool.name: pool.live_bytes for pool in npugraph.pools() if artifact.name in pool.owners}

    assert sum(bytes > 0 for name, bytes in live().items() if "=" in name) >= 2  # at least one pool of each size
    counters["npugraph_ex"].clear()
    with pytest.warns(npugraph.NpugraphWarning, match="All of them are dropped"):
        compiled(torch.randn(5, 16))
    assert not [name for name, bytes in live().items() if bytes > 0 and "=" in name]
    assert sum(live().values()) < 256 * 256
    compiled(torch.randn(192, 16))
    own = artifact.counters
    assert (own["captures"], own["replays"], own["eager_runs"]) == (2, 2, 2)
    assert dict(counters["npugraph_ex"]) == {"eager_runs": 2}


@pytest.mark.feature("1.07")
def test_a_limit_that_is_not_set_does_not_act() -> None:
    compiled = compile_ex(double, dynamic=True, options={"max_instances": 1})
    for n in range(3, 70):
        compiled(torch.randn(n))
    assert held("captured_double_0") == 67
    assert len(npugraph.artifacts()[0].instances) == 1


def test_a_warning_that_is_an_error_reaches_the_caller() -> None:
    compiled = compile_ex(double, dynamic=True, options={"capture_limit": 1})
    compiled(torch.zeros(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(npugraph.NpugraphWarning, match="has 1 captured graph, as many as capture_limit=1 allows"):
            compiled(torch.zeros(4))
    assert compiled(torch.zeros(4)).tolist() == [1] * 4


@pytest.mark.feature("1.08", "3.03")
def test_force_recapture() -> None:
    compiled = compile_ex(double, options={"force_recapture": True})
    for i in range(5):
        with npugraph.task_log() as log:
            assert compiled(torch.full((3,), float(i))).tolist() == [2 * i + 1] * 3
        assert {record.mode for record in log} == {"capture"}
    assert held("recapture_due_to_force_recapture_double_0") == 4
    assert held("captured_double_0") == 1
    own = npugraph.artifacts()[0].counters
    assert (own["captures"], own["recaptures.forced"]) == (5, 4)


@pytest.mark.feature("3.03", "3.01", "12b.6")
def test_a_cache_that_was_allocated_again_counts_once() -> None:
    def step(x, cache):
        cache.add_(x)
        return cache * 2

    compiled, x = compile_ex(step), torch.ones(3)
    cache = torch.zeros(3)
    for _ in range(3):
        compiled(x, cache)
    cache = torch.zeros(3)
    for _ in range(3):
        compiled(x, cache)
    assert cache.tolist() == [3] * 3
    assert held("recapture_due_to_mutated_input_change_step_0") == 1
    assert held("captured_step_0") == 1
    own = npugraph.artifacts()[0].counters
    assert own["recaptures.mutated_input_change"] == 1
    assert own["captures"] == held("captures") == 1


class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((3,), 2.0))
        self.v = torch.nn.Parameter(torch.full((3,), 1.0))

    def forward(self, x):
        return x * self.w + self.v


@pytest.mark.feature("1.10", "3.01", "3.02")
@pytest.mark.parametrize("frozen", [None, False, True])
def test_parameters_are_found_anew_unless_they_are_frozen(frozen) -> None:
    model = Scale()
    compiled = compile_ex(model, options={} if frozen is None else {"frozen_parameter": frozen})
    x = torch.ones(3)
    assert compiled(x).tolist() == [3] * 3
    old = model.w.data
    model.w.data = torch.full((3,), 10.0)
    assert compiled(x).tolist() == ([3] * 3 if frozen else [11] * 3)
    (artifact,) = npugraph.artifacts()
    assert held(f"captured_{artifact.name}") == (1 if frozen else 2)
    assert artifact.counters["recaptures.parameter_change"] == (0 if frozen else 1)
    old.fill_(4)
    assert compiled(x).tolist() == ([5] * 3 if frozen else [11] * 3)
    model.w.data = old
    assert compiled(x).tolist() == [5] * 3
    assert held(f"captured_{artifact.name}") == (1 if frozen else 2)
    model.w.data = torch.full((3,), 20.0)
    artifact.refresh()
    assert compiled(x).tolist() == [21] * 3


@pytest.mark.feature("1.10")
def test_another_parameter_is_not_taken_for_a_frozen_one() -> None:
    model = Scale()
    compiled = compile_ex(model, options={"frozen_parameter": True})
    x = torch.ones(3)
    compiled(x)
    model.w = torch.nn.Parameter(torch.full((3,), 5.0))
    assert compiled(x).tolist() == [6] * 3
    model.w.untyped_storage().resize_(0)
    with pytest.raises((RuntimeError, ValueError), match="memory"):
        compiled(x)
    del model
    other = Scale()
    other.w.data.fill_(8)
    assert compile_ex(other, options={"frozen_parameter": True})(x).tolist() == [9] * 3


def test_options_in_a_cache_for_inference(tmp_path) -> None:
    """The options act on graphs from the file as they do on graphs that were just compiled."""
    from npugraph.inference import cache_compile

    model, options = Scale(), {"clone_output": False}
    for hits in (0, 1):
        npugraph.reset()
        cached = cache_compile(model.forward, cache_dir=tmp_path, options=options)
        before = held("inference_cache_hits")
        first = cached(torch.zeros(3))
        second = cached(torch.ones(3))
        assert held("inference_cache_hits") - before == hits
        assert first.tolist() == second.tolist() == [3] * 3
