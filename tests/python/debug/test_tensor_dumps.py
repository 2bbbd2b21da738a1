# SPDX-License-Identifier: Apache-2.0
"""Option dump_tensor_data: every tensor of a graph in a file, at every call."""

from __future__ import annotations

import re

import pytest
import torch
from torch.testing._internal.distributed.fake_pg import FakeStore

import npugraph
from tests.python.backend.checks import assert_same, compile_ex

pytestmark = pytest.mark.feature("1.19", "2.22", "9.05")


def step(x, cache):
    h = (x.sin() * 2).clone()
    cache.add_(h)
    return h.cos(), cache * 3


def dumped(folder, fn, *calls, **options):
    """Checks the results of `calls`. Returns the tensors in the files that the calls wrote, by node and count."""
    compiled = compile_ex(fn, options={"dump_tensor_data": True, "data_dump_dir": str(folder), **options})
    with torch.no_grad():
        for inputs in calls:
            own, given = [x.clone() for x in inputs], [x.clone() for x in inputs]
            assert_same((compiled(*own), own), (fn(*given), given), exact=False)
    (place,) = folder.iterdir()
    assert place.name == "worldsize1_global_rank0"
    found = {}
    for path in place.iterdir():
        node, count = re.fullmatch(r"(\w+)_device_cpu_(\d+)\.pt", path.name).groups()
        found[node, int(count)] = torch.load(path)
    return found


CALLS = [(torch.randn(4), torch.randn(4)) for _ in range(3)]


@pytest.mark.parametrize("stage", ["optimized", "original"])
def test_every_tensor_of_every_call(tmp_path, stage) -> None:
    found = dumped(tmp_path, step, *CALLS, data_dump_stage=stage)
    nodes = {node for node, _ in found}
    assert {count for _, count in found} == {0, 1, 2}
    assert ("clone" in nodes) == (stage == "original")
    artifacts = npugraph.artifacts()
    assert len(artifacts) == (stage == "optimized")
    for count, (x, cache) in enumerate(CALLS):
        values = {
            "l_x_": x,
            "l_cache_": cache,
            "sin": x.sin(),
            "mul": x.sin() * 2,
            "cos": (x.sin() * 2).cos(),
            "add": cache + x.sin() * 2,
            "mul_1": (cache + x.sin() * 2) * 3,
        }
        for name, value in values.items():
            assert_same(found[name, count], value, exact=False)


def test_dumps_are_captured(tmp_path) -> None:
    dumped(tmp_path, step, *CALLS)
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["captures"] == 1
    assert artifact.counters["replays"] == 3
    assert not artifact.partitions


@pytest.mark.parametrize("stage", ["optimized", "original"])
def test_training_dumps_both_graphs(tmp_path, stage) -> None:
    x = torch.randn(4, requires_grad=True)
    options = {"dump_tensor_data": True, "data_dump_dir": str(tmp_path), "data_dump_stage": stage}
    compile_ex(lambda x: (x.sin() * 2).sum(), options=options)(x).backward()
    assert_same(x.grad, (x.cos() * 2).detach(), exact=False)
    names = {path.name.split("_device_")[0] for path in tmp_path.rglob("*.pt")}
    assert {"sin", "sum_1", "cos", "tangents_1"} <= names


def test_ranks_have_directories_of_their_own(tmp_path) -> None:
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=2, world_size=4)
    try:
        with torch.no_grad():
            compile_ex(step, options={"dump_tensor_data": True, "data_dump_dir": str(tmp_path)})(*CALLS[0])
    finally:
        torch.distributed.destroy_process_group()
    assert [path.name for path in tmp_path.iterdir()] == ["worldsize4_global_rank2"]


def test_nothing_is_dumped_unasked(tmp_path) -> None:
    with (
        torch.no_grad(),
        pytest.warns(npugraph.NpugraphWarning, match="'data_dump_dir' has no effect without 'dump_tensor"),
    ):
        compile_ex(step, options={"data_dump_dir": str(tmp_path)})(*[x.clone() for x in CALLS[0]])
    assert not list(tmp_path.iterdir())


def test_inputs_are_dumped_before_they_are_written(tmp_path) -> None:
    x = torch.zeros(3)
    found = dumped(tmp_path, lambda x: x.add_(1).sin(), (x,))
    assert_same(found["l_x_", 0], x)
