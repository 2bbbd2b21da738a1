# SPDX-License-Identifier: Apache-2.0
"""Decode steps copy nothing of a static cache, and no number of steps makes memory grow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from benchmarks.special_models import CACHE_LENGTH, SPECIAL
from npugraph.demo import generate
from tests.python.first_layers import first_layers
from tests.python.models import model_measurements as m

COPYING = ("clone", "copy", "expand", "repeat", "contiguous", "cat", "stack", "cast")
WARM = 5


def is_copying(operator: str) -> bool:
    return any(word in operator for word in COPYING)


@pytest.mark.feature("2.14")
def test_static_decode_step_copies_nothing(smollm2: Any) -> None:
    """The cache is updated in place. The tasks that rotate keys write them into the cache. Grouped heads are not
    repeated in memory. The concatenation of rotated halves and the position as a float are computed by the tasks that
    use them."""
    m.reset()
    layers = 6  # of 30, which are alike
    with first_layers(smollm2, layers):
        compiled = torch.compile(smollm2, backend=m.BACKEND)
        cache = generate.static_cache(smollm2, 64)
        for token in (7, 8):
            generate.next_token(compiled, cache, torch.tensor([[token]]))
    for artifact in m.artifacts():
        operators = [task.name.split(".")[1:] for task in artifact.tasks]
        assert sum("index_copy_" in names for names in operators) == 2 * layers
        only_copies = [names for names in operators if names and all(is_copying(name) for name in names)]
        assert only_copies == [["index_copy_"]] * layers
        assert artifact.memory["copied_bytes_per_replay"] == 0


@pytest.fixture(scope="module")
@torch.no_grad()
def decode_step() -> tuple[Callable[..., Any], dict[str, Any]]:
    """The compiled decoder of 28 layers, and its inputs with a static cache."""
    m.reset()
    case = SPECIAL["decoder28"]
    compiled, inputs = torch.compile(case.build("base"), backend=m.BACKEND), case.inputs(size="base")
    for _ in range(WARM):
        compiled(**inputs)
    return compiled, inputs


@pytest.mark.no_red_zones
@pytest.mark.feature("2.14")
def test_every_decode_step_allocates_the_same_and_copies_nothing(decode_step: Any) -> None:
    """Counts the allocations of torch's CPU allocator. The table at the end of the run lists those of a step by
    operator. Outside of operators there is one, for the result."""
    compiled, inputs = decode_step
    steps = [allocations(lambda: compiled(**inputs)) for _ in range(3)]
    assert steps[0] == steps[1] == steps[2]
    for artifact in m.artifacts():
        logits = 4 * compiled(**inputs).numel()
        assert [row for row in steps[0] if not row[0].startswith("aten.")] == [("", 1, logits)]
        assert artifact.memory["copied_bytes_per_replay"] == 0
    m.ALLOCATIONS[:] = steps[0]


def allocations(call: Callable[[], Any]) -> list[tuple[str, int, int]]:
    """Returns the task, the number and the bytes of the allocations during ``call``."""
    if m.BACKEND != m.OURS:
        return []
    from npugraph import _C

    _C.allocations_start()
    try:
        call()
    finally:
        rows = _C.allocations_stop()
    return rows


def test_steps_do_not_grow_memory(decode_step: Any) -> None:
    compiled, inputs = decode_step
    before = live_bytes()
    for step in range(1000):
        if step % CACHE_LENGTH == 0:
            inputs["cache"].reset()
        compiled(**inputs)
    assert live_bytes() == before
    assert all(artifact.counters["captures"] == 1 for artifact in m.artifacts())


def test_growing_cache_keeps_instances_bounded() -> None:
    """Every step of a DynamicCache has a new size. No more Instances are kept than the option says. The cache asks for
    new tensors that hold the old keys and values, so a step copies these, and at most the new token's besides."""
    from transformers import DynamicCache

    m.reset()
    most = 8
    model = SPECIAL["decoder28"].build().model
    options = {"max_instances": most} if m.BACKEND == m.OURS else None
    compiled = torch.compile(model, backend=m.BACKEND, dynamic=True, options=options)
    cache = DynamicCache(config=model.config)
    expected = DynamicCache(config=model.config)
    steps = 120
    for step in range(steps):
        token = torch.tensor([[step]])
        ours = compiled(input_ids=token, past_key_values=cache).logits
        eager = model(input_ids=token, past_key_values=expected).logits
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)
    if m.BACKEND == m.OURS:
        growing = max(m.artifacts(), key=lambda artifact: artifact.counters["captures"])
        assert growing.counters["captures"] > most
        assert len(growing.instances) == most
        assert all(len(artifact.instances) <= most for artifact in m.artifacts())
        config = model.config
        of_token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 4
        forced = (steps - 1) * of_token
        assert forced <= growing.memory["copied_bytes_per_replay"] <= forced + of_token


def live_bytes() -> list[int]:
    """Returns the live bytes of every memory pool."""
    if m.BACKEND != m.OURS:
        return []
    import npugraph

    pools = npugraph.pools()
    assert pools
    return [pool.live_bytes for pool in pools]
