# SPDX-License-Identifier: Apache-2.0
"""Lengths of sequences may change from call to call of a compiled graph without another capture."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu

import npugraph
from tests.python.backend.checks import compile_ex
from tests.python.device.npu_operators import normal, on

PLACES = pytest.mark.parametrize("place", ["cpu", "npu"])
LENGTHS = [([2, 3], [4, 6]), ([3, 2], [4, 5]), ([6, 4], [3, 3]), ([5, 5], [6, 6]), ([2, 3], [4, 6])]


@pytest.fixture(autouse=True)
def fresh():
    npugraph.reset()
    with torch.no_grad():
        yield


def score(q: Any, k: Any, v: Any, rows: list[int], keys: list[int]) -> torch.Tensor:
    lengths = {"actual_seq_lengths": rows, "actual_seq_lengths_kv": keys}
    out = torch_npu.npu_fused_infer_attention_score(q * 2, k, v, num_heads=2, input_layout="BSH", scale=0.3, **lengths)
    return out[0] + 1


def score_v2(q: Any, k: Any, v: Any, rows: list[int], keys: list[int]) -> torch.Tensor:
    lengths = {"actual_seq_qlen": rows, "actual_seq_kvlen": keys}
    settings = {"num_query_heads": 2, "input_layout": "BSH", "softmax_scale": 0.3}
    return torch_npu.npu_fused_infer_attention_score_v2(q * 2, k, v, **settings, **lengths)[0] + 1


def score_into(q: Any, k: Any, v: Any, rows: list[int], keys: list[int]) -> torch.Tensor:
    """Passes memory for the results and a workspace, as graphs of Ascend's backend do."""
    settings = {"num_heads": 2, "input_layout": "BSH", "scale": 0.3, "actual_seq_lengths": rows}
    settings["actual_seq_lengths_kv"] = keys
    space = torch_npu._npu_fused_infer_attention_score_get_max_workspace(q, k, v, **settings)
    out = [torch.empty_like(q), q.new_empty(0)]
    torch_npu.npu_fused_infer_attention_score.out(q * 2, k, v, workspace=space, **settings, out=out)
    return out[0] + 1


def inputs(place: str) -> tuple[torch.Tensor, ...]:
    return on(place, tuple(normal(2, 6, 16, seed=i) for i in range(3)))


@pytest.mark.feature("3.09", "3.01", "2.20")
@pytest.mark.parametrize("step", [score, score_v2, score_into])
@PLACES
def test_attention_of_changing_lengths(step: Any, place: str) -> None:
    compiled = compile_ex(step, dynamic=True)
    given = inputs(place)
    for rows, keys in LENGTHS:
        torch.testing.assert_close(compiled(*given, rows, keys), step(*given, rows, keys))
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["captures"] == len(artifact.instances) == 1
    assert artifact.counters["refreshes"] == len(LENGTHS) - 1
    assert artifact.counters["replays"] == len(LENGTHS)


@pytest.mark.feature("3.09")
def test_an_update_comes_before_the_task_that_reads_it() -> None:
    """Each task reads the lengths of its own call, also when calls follow each other at once."""
    compiled = compile_ex(score, dynamic=True)
    given = inputs("npu")
    results = [compiled(*given, *LENGTHS[i % 4]) for i in range(16)]
    for i, result in enumerate(results):
        assert torch.equal(result, results[i % 4])
    assert not torch.equal(results[0], results[1])
    (artifact,) = npugraph.artifacts()
    for refreshes, lengths in ((16, LENGTHS[0]), (17, LENGTHS[1]), (17, LENGTHS[1])):
        with npugraph.task_log() as log:
            compiled(*given, *lengths)
        names = [record.name for record in sorted(log, key=lambda record: record.begin_ns)]
        assert names == ["loop.mul", "npu.npu_fused_infer_attention_score", "loop.add"]
        assert all("replay" in str(record) for record in log)
        assert artifact.counters["refreshes"] == refreshes


@pytest.mark.feature("3.01")
def test_other_sizes_are_captured() -> None:
    compiled = compile_ex(score, dynamic=True)
    for size in (6, 7, 6):
        given = on("npu", tuple(normal(2, size, 16, seed=i) for i in range(3)))
        for rows, keys in LENGTHS[:3]:
            torch.testing.assert_close(compiled(*given, rows, keys), score(*given, rows, keys))
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["captures"] == 2


@pytest.mark.feature("3.09")
@pytest.mark.parametrize("splits", [False, True])
@PLACES
def test_paged_attention_of_changing_contexts(splits: bool, place: str) -> None:
    """Each run reads lengths that are in host tensors."""
    query, table = normal(3, 4, 8), torch.tensor([[5, 0, 3], [2, 6, 1], [4, 7, 8]], dtype=torch.int32)
    caches = [normal(9, 3, 2, 8, seed=i) for i in (1, 2)]
    query, table, *caches = on(place, (query, table, *caches))
    rows, mask = torch.tensor([1, 1, 1]), on(place, torch.ones(2, 2).triu(1))

    def step(lengths: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(query)
        if splits:
            op = torch.ops.atb._npu_paged_attention_splitfuse
            op(query, *caches, table, lengths, mask, rows, 2, 4, 0.3, out)
        else:
            torch_npu._npu_paged_attention(query, *caches, 2, 4, 0.3, table, lengths, out)
        return out * 2

    compiled = compile_ex(step)
    for lengths in ([7, 2, 9], [3, 3, 3], [1, 9, 5]):
        given = torch.tensor(lengths, dtype=torch.int32)
        torch.testing.assert_close(compiled(given), step(given))
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["captures"] == 1
    # Lengths in tensors need no refresh.
    assert (artifact.counters["refreshes"], artifact.counters["replays"]) == (0, 3)
    with npugraph.task_log() as log:
        compiled(given)
    attention = f"atb._npu_paged_attention{'_splitfuse' * splits}"
    assert [record.name for record in log] == ["aten.empty_like", attention, "kernel.binary_mul"]
