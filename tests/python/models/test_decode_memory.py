# SPDX-License-Identifier: Apache-2.0
"""Decode steps: nothing of the cache is copied, and no number of steps makes memory grow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from benchmarks.special_models import CACHE_LENGTH, SPECIAL
from npugraph.demo import generate
from tests.python.models import model_measurements as m

# What the model itself asks for in a decode step: rotate_half concatenates the halves of queries and keys, and
# the position becomes a float. Nothing of it reads the cache.
COPIES_OF_THE_MODEL = {"aten.cat.out", "aten._to_copy"}
COPYING = ("clone", "copy", "expand", "repeat", "contiguous", "cat")
UPDATES_IN_PLACE = {"aten.index_copy_"}


def test_static_decode_step_copies_nothing_of_the_cache(smollm2: Any) -> None:
    """The cache is updated in place and the repeat of grouped heads is not made. Every copied byte is accounted for."""
    m.reset()
    compiled = torch.compile(smollm2, backend=m.BACKEND)
    cache = generate.static_cache(smollm2, 64)
    for token in (7, 8):
        generate.next_token(compiled, cache, torch.tensor([[token]]))
    for artifact in m.artifacts():
        copies = [task for task in artifact.tasks if any(word in task.name for word in COPYING)]
        assert {task.name for task in copies} <= COPIES_OF_THE_MODEL | UPDATES_IN_PLACE
        of_the_model = sum(task.bytes_written for task in copies if task.name in COPIES_OF_THE_MODEL)
        assert artifact.memory["copied_bytes_per_replay"] == of_the_model


def test_every_decode_step_allocates_the_same_and_copies_nothing() -> None:
    """Counted on torch's CPU allocator; the table at the end of the run lists a step's allocations by operator."""
    m.reset()
    case = SPECIAL["decoder28"]
    compiled = torch.compile(case.build(), backend=m.BACKEND)
    inputs = case.inputs()
    for _ in range(5):
        compiled(**inputs)
    steps = [allocations(lambda: compiled(**inputs)) for _ in range(3)]
    assert steps[0] == steps[1] == steps[2]
    assert [artifact.memory["copied_bytes_per_replay"] for artifact in m.artifacts()] == [0] * len(m.artifacts())
    m.ALLOCATIONS[:] = steps[0]


def allocations(call: Callable[[], Any]) -> list[tuple[str, int, int]]:
    """Task, number and bytes of allocations during ``call``."""
    if m.BACKEND != m.OURS:
        return []
    from npugraph import _C

    _C.allocations_start()
    try:
        call()
    finally:
        rows = _C.allocations_stop()
    return rows


@pytest.mark.parametrize("steps", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_steps_do_not_grow_memory(steps: int) -> None:
    m.reset()
    case = SPECIAL["decoder28"]
    compiled = torch.compile(case.build(), backend=m.BACKEND)
    inputs = case.inputs()
    warm = 5
    for _ in range(warm):
        compiled(**inputs)
    before = live_bytes()
    for step in range(steps):
        if step % (CACHE_LENGTH - warm) == 0:
            inputs["cache"].reset()
        compiled(**inputs)
    assert live_bytes() == before
    assert all(artifact.counters["captures"] == 1 for artifact in m.artifacts())


@pytest.mark.parametrize("steps", [40, pytest.param(120, marks=pytest.mark.long)])
def test_growing_cache_keeps_instances_bounded(steps: int) -> None:
    """Every step of a DynamicCache has a new size; the Instances kept for old sizes stay bounded."""
    from transformers import DynamicCache

    m.reset()
    model = SPECIAL["decoder28"].build().model
    compiled = torch.compile(model, backend=m.BACKEND, dynamic=True)
    cache = DynamicCache(config=model.config)
    expected = DynamicCache(config=model.config)
    for step in range(steps):
        token = torch.tensor([[step]])
        ours = compiled(input_ids=token, past_key_values=cache).logits
        eager = model(input_ids=token, past_key_values=expected).logits
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)
    assert all(len(artifact.instances) <= steps for artifact in m.artifacts())


def live_bytes() -> list[int]:
    """Live bytes of every memory pool."""
    if m.BACKEND != m.OURS:
        return []
    import npugraph

    return [pool.live_bytes for pool in npugraph.pools()]
