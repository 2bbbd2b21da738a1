# SPDX-License-Identifier: Apache-2.0
"""Errors of replays say what failed and where, also where the replay runs inside of ``ExternalEvent.record``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch_npu

from tests.python.backend.checks import compile_ex
from tests.python.device.captures import captured, numbers, same

PLACES, HEADS, SIZE = 4, 2, 8


def attention(pages: int = 3) -> tuple[Callable[[], Any], torch.Tensor]:
    """Returns a call of attention to a cache, and its table of blocks, which replays read anew."""
    key, value = (numbers(pages, PLACES, HEADS * SIZE) for _ in range(2))
    table = torch.zeros(2, pages, dtype=torch.int32, device="npu")
    options: dict[str, Any] = {"num_heads": HEADS, "input_layout": "BSH", "block_size": PLACES}
    options |= {"block_table": table, "actual_seq_lengths_kv": [3, 5]}
    query = numbers(2, 1, HEADS * SIZE)
    return lambda: torch_npu.npu_fused_infer_attention_score(query, key, value, **options), table


@pytest.fixture
def no_memory() -> Iterator[Callable[[], None]]:
    """Gives a function that leaves the device without free memory until the test ends."""
    total = torch.npu.mem_get_info()[1]
    yield lambda: torch.npu.set_per_process_memory_fraction((torch.npu.memory_allocated() + 1) / total)
    torch.npu.set_per_process_memory_fraction(1)


def waiting(fn: Callable[[], Any], event: Any) -> torch.npu.NPUGraph:
    """Returns a graph that waits for ``event`` and then does ``fn``."""

    def wait_first() -> Any:
        stream = torch.npu.current_stream()
        event.wait(stream)
        event.reset(stream)
        return fn()

    return captured(wait_first)[0]


ATTENTION = r"npu\.npu_fused_infer_attention_score\S*, task 2 of 2 of capture\.\d+ in a captured graph"


def test_memory_that_an_operator_lacks(no_memory: Callable[[], None]) -> None:
    attend, _ = attention()
    x = numbers(2)
    graph, _ = captured(lambda: (x.add_(1), attend()))
    no_memory()
    with pytest.raises(torch.OutOfMemoryError, match=rf"(?s)Tried to allocate \d+ bytes.*{ATTENTION}"):
        graph.replay()


def test_memory_that_an_operator_lacks_behind_an_event(no_memory: Callable[[], None]) -> None:
    attend, _ = attention()
    x, event = numbers(2), torch.npu.ExternalEvent()
    graph = waiting(lambda: (x.add_(1), attend()), event)
    no_memory()
    with torch.npu.stream(torch.npu.Stream()):
        graph.replay()
    with pytest.raises(torch.OutOfMemoryError, match=rf"(?s){ATTENTION}.*waited for an ExternalEvent"):
        event.record(torch.npu.current_stream())


def test_a_place_out_of_range() -> None:
    attend, table = attention()
    x = numbers(2)
    graph, (_, (got, _)) = captured(lambda: (x.add_(1), attend()))
    table.fill_(9)
    with pytest.raises(IndexError, match=rf"(?s)index out of range.*{ATTENTION}"):
        graph.replay()
    table.zero_()
    graph.replay()
    assert same(got, attend()[0])


def test_an_error_in_a_compiled_graph() -> None:
    table, index = numbers(5, 2), torch.tensor([1, 3], device="npu")
    compiled = compile_ex(lambda table, index: torch.index_select(table * 2, 0, index))
    graph, _ = captured(lambda: compiled(table, index))
    index.fill_(7)
    with pytest.raises(IndexError, match=r"(?s)index_select.*test_replay_errors\.py.* in a captured graph"):
        graph.replay()


def test_an_event_that_is_reset_while_the_graph_waits_for_another_has_happened() -> None:
    x, events = numbers(2), [torch.npu.ExternalEvent() for _ in range(2)]

    def fn() -> None:
        for event in events:
            event.wait(torch.npu.current_stream())
            x.add_(1)

    graph, _ = captured(fn)
    want = x + 2
    with torch.npu.stream(torch.npu.Stream()):
        graph.replay()
    events[0].record(torch.npu.current_stream())
    events[0].reset(torch.npu.current_stream())
    events[1].record(torch.npu.current_stream())
    assert same(x, want)


def test_an_event_that_a_graph_waits_for_twice() -> None:
    x, event = numbers(2), torch.npu.ExternalEvent()

    def fn() -> None:
        for _ in range(2):
            event.wait(torch.npu.current_stream())
            event.reset(torch.npu.current_stream())
            x.add_(1)

    graph, _ = captured(fn)
    before = x.clone()
    with torch.npu.stream(torch.npu.Stream()):
        graph.replay()
    for times in (1, 2):
        event.record(torch.npu.current_stream())
        assert same(x, before + times)


def test_streams_that_wait_for_one_event_all_go_on() -> None:
    attend, table = attention()
    x, event = numbers(2), torch.npu.ExternalEvent()
    graphs = [waiting(attend, event), waiting(lambda: x.add_(1), event)]
    table.fill_(9)
    before = x.clone()
    for graph in graphs:
        with torch.npu.stream(torch.npu.Stream()):
            graph.replay()
    with pytest.raises(IndexError):
        event.record(torch.npu.current_stream())
    assert same(x, before + 1)
    torch.npu.synchronize()
