# SPDX-License-Identifier: Apache-2.0
"""Ranges of compiled calls in traces of torch's profiler."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import npugraph
from npugraph.inference import cache_compile
from tests.python.backend.checks import compile_ex

pytestmark = pytest.mark.feature("3.13", "9.11")

LABELS = {
    "npu_fx_compiler inference",
    "npu_fx_compiler forward",
    "npu_fx_compiler backward",
    "acl_graph_capture",
    "acl_graph_warm_up",
    "acl_graph_replay",
    "fx_run_eagerly",
    "cache_compiler inference",
}


def labels(call) -> Counter[str]:
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        call()
    return Counter({e.key: e.count for e in profiler.key_averages() if e.key in LABELS})


def test_labels_of_inference() -> None:
    compiled = compile_ex(lambda x: x.sin() @ x.T)
    x = torch.randn(8, 8)
    with torch.no_grad():
        first = labels(lambda: compiled(x))
        later = labels(lambda: [compiled(x) for _ in range(3)])
    once = {"npu_fx_compiler inference": 1, "acl_graph_capture": 1, "acl_graph_warm_up": 1, "acl_graph_replay": 1}
    assert first == once
    assert later == {"npu_fx_compiler inference": 3, "acl_graph_replay": 3}


def test_a_range_for_each_task_with_its_line() -> None:
    def fn(x):
        return torch.nn.functional.softmax(x.sin() @ x.T, 0)

    compiled = compile_ex(fn)
    x = torch.randn(64, 64)
    with torch.no_grad():
        compiled(x)
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            compiled(x)
    tasks = npugraph.artifacts()[-1].tasks
    ranges = [e for e in profiler.events() if e.cpu_parent is not None and e.cpu_parent.name == "acl_graph_replay"]
    assert [e.name for e in ranges if "(" in e.name] == [f"{task.name} ({task.source})" for task in tasks]
    assert tasks and all("test_profiler_labels.py" in task.source for task in tasks)


def test_labels_of_training() -> None:
    compiled = compile_ex(lambda x: (x.sin() @ x.T).sum())
    x = torch.randn(8, 8, requires_grad=True)
    compiled(x).backward()
    found = labels(lambda: compiled(x).backward())
    assert found == {"npu_fx_compiler forward": 1, "npu_fx_compiler backward": 1, "acl_graph_replay": 2}


class Product(torch.nn.Module):
    def forward(self, x):
        return x.sin() @ x.T


def test_labels_of_functions_in_a_cache(tmp_path) -> None:
    """Covers a function that this process compiled, and one that it loaded."""
    x = torch.randn(8, 8)
    for compiles in (True, False):
        npugraph.reset()
        cached = cache_compile(Product().forward, cache_dir=str(tmp_path))
        with torch.no_grad():
            cached(x)
            found = labels(lambda run=cached: [run(x) for _ in range(3)])
            with profile(activities=[ProfilerActivity.CPU]) as profiler:
                cached(x)
        assert bool(npugraph.artifacts()) == compiles
        assert found == {"cache_compiler inference": 3, "npu_fx_compiler inference": 3, "acl_graph_replay": 3}
        parents = {
            e.name: e.cpu_parent.name for e in profiler.events() if e.name in LABELS and e.cpu_parent is not None
        }
        assert parents["npu_fx_compiler inference"] == "cache_compiler inference"


def test_labels_without_capture() -> None:
    compiled = compile_ex(lambda x: x.sin() @ x.T, options={"force_eager": True})
    with torch.no_grad():
        found = labels(lambda: [compiled(torch.randn(8, 8)) for _ in range(2)])
    assert found == {"npu_fx_compiler inference": 2, "fx_run_eagerly": 2}


def test_labels_of_the_fallback() -> None:
    def fn(x, y):
        x.add_(1)
        return y * 2

    compiled = compile_ex(fn)
    base = torch.zeros(6)
    with torch.no_grad():
        compiled(torch.zeros(4), torch.zeros(4))
        found = labels(lambda: compiled(base[:4], base[2:]))
    assert found["fx_run_eagerly"] == 1


def test_ranges_nest() -> None:
    compiled = compile_ex(lambda x: x.sin() @ x.T)
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as profiler:
        compiled(torch.randn(8, 8))
    parents = {e.name: e.cpu_parent.name for e in profiler.events() if e.name in LABELS and e.cpu_parent is not None}
    assert parents["acl_graph_capture"] == "npu_fx_compiler inference"
    assert parents["acl_graph_warm_up"] == "npu_fx_compiler inference"
    assert parents["acl_graph_replay"] == "acl_graph_warm_up"
