# SPDX-License-Identifier: Apache-2.0
"""A new size makes a new Instance and calls no compiler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

import npugraph
from tests.python.backend.checks import assert_same, compile_ex, compiled_artifacts, task_names
from tests.python.forks import run_python

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
    ).eval()


@pytest.mark.feature("1.24", "3.01")
def test_a_new_size_captures_and_compiles_nothing() -> None:
    plain = model()
    compiled = compile_ex(plain, dynamic=True)
    compiled(torch.randn(5, 8))
    (artifact,) = npugraph.artifacts()
    tasks = task_names(artifact)
    for captures, n in enumerate((3, 7, 1000, 2), start=2):
        x = torch.randn(n, 8)
        assert_same(compiled(x), plain(x), exact=False)
        assert artifact.counters["captures"] == captures
    for n in (5, 3, 1000):
        x = torch.randn(n, 8)
        assert_same(compiled(x), plain(x), exact=False)
    assert npugraph.artifacts() == [artifact]
    assert task_names(artifact) == tasks
    assert artifact.counters["compiles"] == 1
    assert artifact.counters["captures"] == 5
    assert artifact.counters["replays"] == 8
    assert artifact.counters["cache_hits"] == 3
    assert artifact.counters["cache_misses"] == 5
    assert counters["npugraph_ex"]["compiles"] == 1


def test_a_new_size_makes_no_machine_code() -> None:
    """In a fresh process, so that no other test has made the code already."""
    done = run_python("-m", "tests.python.backend.graphs.new_sizes", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {name: later for name, (_, later) in found.items()} == dict.fromkeys(found, 0)
    assert {name: {"aten", "kernel"}.intersection(kinds) for name, (kinds, _) in found.items()} == {
        k: set() for k in found
    }


def test_size_one_has_a_graph_of_its_own_at_most() -> None:
    plain = model()
    compiled = compile_ex(plain, dynamic=True)
    for n in (4, 1, 9, 1):
        x = torch.randn(n, 8)
        assert_same(compiled(x), plain(x), exact=False)
    assert len(compiled_artifacts()) <= 2


@pytest.mark.feature("1.24")
@pytest.mark.parametrize(("dynamic", "compiles"), [(None, 2), (True, 1), (False, 4)])
def test_number_of_compiles(dynamic, compiles) -> None:
    plain = model()
    compiled = compile_ex(plain, dynamic=dynamic)
    for n in (4, 5, 6, 7, 4):
        x = torch.randn(n, 8)
        assert_same(compiled(x), plain(x), exact=False)
    assert counters["npugraph_ex"]["compiles"] == compiles


def test_instances_are_bounded() -> None:
    compiled = compile_ex(lambda x: x * 2 + 1, dynamic=True, options={"max_instances": 2})

    def call(n):
        x = torch.randn(n)
        assert_same(compiled(x), x * 2 + 1)

    for n in (3, 4, 5):
        call(n)
    said = r"=3 again, .* keeps the 2 captures used last. Raise max_instances"
    with pytest.warns(npugraph.NpugraphWarning, match=said):
        call(3)
    for n in (3, 5, 4, 3):  # it has said so once
        call(n)
    (artifact,) = npugraph.artifacts()
    assert [list(instance.symbols.values()) for instance in artifact.instances] == [[3], [4]]
    assert artifact.counters["captures"] == 6
    assert artifact.counters["recaptures.evicted"] == 3


@pytest.mark.feature("1.02", "12b.6")
def test_force_eager_counts_no_captures_and_keeps_no_instance() -> None:
    plain = model()
    compiled = compile_ex(plain, dynamic=True, options={"force_eager": True})
    counters["npugraph_ex"].clear()
    for n in (4, 4, 5):
        x = torch.randn(n, 8)
        assert_same(compiled(x), plain(x), exact=False)
    (artifact,) = npugraph.artifacts()
    assert artifact.instances == []
    own = artifact.counters
    assert own["eager_runs"] == counters["npugraph_ex"]["eager_runs"] == 3
    of_captures = ("capture", "replays", "recapture", "cache_")
    assert not any(value for name, value in own.items() if name.startswith(of_captures))
    assert not any(name.startswith(of_captures) for name in counters["npugraph_ex"])
    with npugraph.task_log() as log:
        compiled(torch.randn(4, 8))
    assert {record.mode for record in log} == {"eager"}


def test_refresh_captures_again() -> None:
    compiled = compile_ex(lambda x: x * 2 + 1)
    compiled(torch.ones(3))
    (artifact,) = npugraph.artifacts()
    artifact.refresh()
    assert artifact.instances == []
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
    assert artifact.counters["captures"] == 2
    assert artifact.counters["compiles"] == 1


def test_memory_follows_the_largest_size() -> None:
    compiled = compile_ex(lambda x: torch.softmax(x @ x.t(), -1) @ x, dynamic=True)
    compiled(torch.randn(16, 8))
    (artifact,) = npugraph.artifacts()
    small = artifact.memory["arena_bytes"]
    compiled(torch.randn(64, 8))
    large = artifact.memory["arena_bytes"]
    assert large > small
    compiled(torch.randn(16, 8))
    live = [pool.live_bytes for pool in npugraph.pools() if pool.name.startswith("arena")]
    assert sum(live) >= large
    assert artifact.memory["lower_bound_bytes"] <= large
