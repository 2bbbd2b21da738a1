# SPDX-License-Identifier: Apache-2.0
"""Large results take the memory that earlier results of the same size gave back."""

from __future__ import annotations

import copy
import gc
import itertools
from collections.abc import Callable, Iterator

import pytest
import torch

import npugraph

ELEMENTS = 1 << 20
BYTES = 4 * ELEMENTS


@pytest.fixture
def compiled() -> Iterator[Callable[..., torch.Tensor]]:
    gc.collect()  # results of earlier tests would be given back later
    npugraph.reset()
    with torch.no_grad():
        yield torch.compile(lambda x: torch.exp(x) + 1, backend="npugraph_ex")
    npugraph.reset()


def spare_bytes() -> int:
    return sum(pool.live_bytes for pool in npugraph.pools() if pool.name == "spare results")


@pytest.mark.no_red_zones
def test_a_dropped_result_serves_the_next_call(compiled: Callable[..., torch.Tensor]) -> None:
    x = torch.randn(ELEMENTS)
    compiled(x)
    place = compiled(x).data_ptr()
    assert spare_bytes() == BYTES
    result = compiled(x)
    assert result.data_ptr() == place
    assert spare_bytes() == 0
    torch.testing.assert_close(result, torch.exp(x) + 1)


def test_a_result_that_lives_keeps_its_memory(compiled: Callable[..., torch.Tensor]) -> None:
    inputs = [torch.full((ELEMENTS,), float(i)) for i in range(4)]
    results = [compiled(x) for x in inputs]
    view = results.pop(0)[:10]
    del results[-1]
    results.append(compiled(inputs[-1]))
    assert len({result.data_ptr() for result in (view, *results)}) == 4
    for x, result in zip(inputs, (view, *results), strict=True):
        torch.testing.assert_close(result, (torch.exp(x) + 1)[: len(result)])


@pytest.mark.no_red_zones
def test_no_more_is_kept_than_one_call_takes(compiled: Callable[..., torch.Tensor]) -> None:
    x = torch.randn(ELEMENTS)
    results = [compiled(x) for _ in range(5)]
    results.clear()
    assert spare_bytes() == BYTES
    result = compiled(x)
    npugraph.reset()
    assert spare_bytes() == 0
    torch.testing.assert_close(result, torch.exp(x) + 1)
    del result
    assert spare_bytes() == 0


def test_results_are_ordinary_tensors(compiled: Callable[..., torch.Tensor]) -> None:
    x = torch.randn(ELEMENTS)
    compiled(x)
    result = compiled(x)
    expected = torch.exp(x) + 1
    torch.testing.assert_close(copy.deepcopy(result), expected)
    result.resize_(2 * ELEMENTS)
    torch.testing.assert_close(result[:ELEMENTS], expected)
    torch.testing.assert_close(compiled(x), expected)


def test_small_results_are_left_to_malloc(compiled: Callable[..., torch.Tensor]) -> None:
    compiled(torch.randn(64))
    compiled(torch.randn(64))
    assert spare_bytes() == 0


class Layers(torch.nn.Module):
    """Layers whose activations are as large as everything else together."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.square().mean()


@pytest.mark.no_red_zones
def test_a_backward_pass_frees_activations_after_their_last_use() -> None:
    compiled, x = torch.compile(Layers(), backend="npugraph_ex"), torch.randn(1 << 14, 64)
    for _ in range(2):
        loss = compiled(x)
        loss.backward()
    with npugraph.task_log() as log:
        loss = compiled(x)
        loss.backward()
    backward = [record for record in log if record.artifact.endswith("backward")]
    pool = next(pool for pool in npugraph.pools() if pool.name == "spare results")
    spare = [event.bytes for event in pool.history if backward[0].begin_ns < event.ns < backward[-1].end_ns]
    # Only rises count: memory of earlier tests may be collected, and then freed, at any time.
    given_back = sum(max(later - earlier, 0) for earlier, later in itertools.pairwise(spare))
    assert given_back >= 6 * x.nbytes  # before the last task is done
    npugraph.reset()


def test_activations_that_are_read_again_stay() -> None:
    model, x = Layers(), torch.randn(1 << 10, 64)
    compiled = torch.compile(model, backend="npugraph_ex")
    expected = torch.autograd.grad(model(x), list(model.parameters()))
    loss = compiled(x)
    for _ in range(2):
        found = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
        for own, eager in zip(found, expected, strict=True):
            torch.testing.assert_close(own, eager, rtol=1e-4, atol=1e-6)
