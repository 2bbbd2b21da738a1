# SPDX-License-Identifier: Apache-2.0
"""Captured graphs use caches in place: no capture and no replay copies one, and a replay keeps no memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu

from npugraph import _C
from tests.python.device.captured_calls import capture, copied_by_replay, kept_by_replay
from tests.python.device.npu_operators import normal

PLACES, HEADS, SIZE = 16, 2, 32
Make = Callable[[int], tuple[Callable[[], Any], list[torch.Tensor]]]
OPERATORS: dict[str, Make] = {}
V2_NAMES = {
    "num_heads": "num_query_heads",
    "actual_seq_lengths": "actual_seq_qlen",
    "actual_seq_lengths_kv": "actual_seq_kvlen",
}


def operator(make: Make) -> Make:
    """Registers a function that returns a call on caches of the given number of pages, and these caches."""
    OPERATORS[make.__name__] = make
    return make


def caches(pages: int, *page: int) -> list[torch.Tensor]:
    return [normal(pages, *page, dtype=torch.float16, seed=seed).npu() for seed in range(2)]


def half(*size: int, seed: int = 0) -> torch.Tensor:
    return normal(*size, dtype=torch.float16, seed=seed).npu()


def slots() -> torch.Tensor:
    return torch.tensor([PLACES + 3, -1, 5], dtype=torch.int32, device="npu")


@operator
def reshape_and_cache(pages: int) -> Any:
    key, value = caches(pages, PLACES, HEADS, SIZE)
    x, places = half(3, HEADS, SIZE), slots()
    return lambda: torch_npu._npu_reshape_and_cache(x, x, key, value, places), [key, value]


@operator
def reshape_and_cache_of_views(pages: int) -> Any:
    both = half(2, pages, PLACES, HEADS, SIZE)
    x, places = half(3, HEADS, SIZE), slots()
    return lambda: torch_npu._npu_reshape_and_cache(x, x, both[0], both[1], places), [both]


@operator
def reshape_and_cache_siso(pages: int) -> Any:
    key, _ = caches(pages, PLACES, HEADS, SIZE)
    x, places = half(3, HEADS, SIZE), slots()
    return lambda: torch.ops.atb._npu_reshape_and_cache_siso(x, key, places), [key]


@operator
def scatter_pa_kv_cache(pages: int) -> Any:
    key, value = caches(pages, PLACES, HEADS, SIZE)
    x, places = half(3, HEADS, SIZE), slots()
    return lambda: torch_npu.npu_scatter_pa_kv_cache(x, x, key, value, places, cache_mode="Norm"), [key, value]


@operator
def scatter_nd_update(pages: int) -> Any:
    cache, rows = half(pages * PLACES, SIZE), half(3, SIZE)
    places = slots().abs().long().unsqueeze(1)
    return lambda: torch_npu.npu_scatter_nd_update_(cache, places, rows), [cache]


@operator
def scatter_pa_kv_cache_in_pieces(pages: int) -> Any:
    key, value = caches(pages, HEADS * SIZE // 16, PLACES, 16)
    x, places = half(3, HEADS, SIZE), slots()
    return lambda: torch_npu.npu_scatter_pa_kv_cache(x, x, key, value, places, cache_mode="PA_NZ"), [key, value]


def fused(pages: int) -> tuple[Any, dict[str, Any], list[torch.Tensor]]:
    key, value = caches(pages, PLACES, HEADS * SIZE)
    query = half(3, 1, 2 * HEADS * SIZE)
    table = torch.tensor([[0, 2], [1, 0], [2, 1]], dtype=torch.int32, device="npu")
    options = {
        "num_heads": 2 * HEADS,
        "num_key_value_heads": HEADS,
        "input_layout": "BSH",
        "block_table": table,
        "block_size": PLACES,
        "actual_seq_lengths_kv": [20, 3, 31],
    }
    return query, options, [key, value]


@operator
def fused_infer_attention_score(pages: int) -> Any:
    query, options, (key, value) = fused(pages)
    return lambda: torch_npu.npu_fused_infer_attention_score(query, key, value, **options), [key, value]


def packed(pages: int, ends: list[int], lengths: list[int]) -> tuple[torch.Tensor, dict[str, Any], list[torch.Tensor]]:
    """The arguments with which vllm-ascend attends to a cache: packed queries that end at ``ends``, and a mask."""
    key, value = caches(pages, PLACES, HEADS * SIZE)
    query = half(ends[-1], 2 * HEADS, SIZE)
    table = torch.tensor([[0, 2], [1, 0], [2, 1]], dtype=torch.int32, device="npu")[: len(ends)]
    options = {
        "atten_mask": torch.ones(64, 64, dtype=torch.int8).triu(1).npu(),
        **{"sparse_mode": 3, "input_layout": "TND", "block_table": table, "block_size": PLACES},
        **{"actual_seq_lengths": ends, "actual_seq_lengths_kv": lengths},
        **{"num_heads": 2 * HEADS, "num_key_value_heads": HEADS},
    }
    return query, options, [key, value]


def attention_of_packed(pages: int, ends: list[int], lengths: list[int]) -> Any:
    query, options, (key, value) = packed(pages, ends, lengths)
    return lambda: torch_npu.npu_fused_infer_attention_score(query, key, value, **options), [key, value]


@operator
def decode_of_packed_queries(pages: int) -> Any:
    return attention_of_packed(pages, [1, 2, 3], [20, 3, 31])


@operator
def chunked_prefill(pages: int) -> Any:
    return attention_of_packed(pages, [17], [31])


@operator
def prefill_beside_decode(pages: int) -> Any:
    return attention_of_packed(pages, [1, 2, 14], [20, 3, 31])


@operator
def fused_infer_attention_score_v2_out_with_sinks(pages: int) -> Any:
    query, options, (key, value) = packed(pages, [1, 2, 3], [20, 3, 31])
    options = {V2_NAMES.get(name, name): given for name, given in options.items()}
    options["learnable_sink"] = half(2 * HEADS)
    out = [torch.empty_like(query), torch.empty(1, device="npu")]
    call = torch_npu.npu_fused_infer_attention_score_v2.out
    return lambda: call(query, key, value, **options, out=out), [key, value]


@operator
def fused_infer_attention_score_of_views(pages: int) -> Any:
    query, options, (key, value) = fused(pages)
    call = torch_npu.npu_fused_infer_attention_score
    key4, value4 = (x.view(pages, PLACES, HEADS, SIZE) for x in (key, value))
    return lambda: call(query, key4.view(pages, PLACES, -1), value4.view(pages, PLACES, -1), **options), [key, value]


@operator
def fused_infer_attention_score_out(pages: int) -> Any:
    query, options, (key, value) = fused(pages)
    out = [torch.empty_like(query), torch.empty(1, device="npu")]
    call = torch_npu.npu_fused_infer_attention_score.out
    return lambda: call(query, key, value, **options, out=out), [key, value]


@operator
def fused_infer_attention_score_v2(pages: int) -> Any:
    query, options, (key, value) = fused(pages)
    options = {V2_NAMES.get(name, name): given for name, given in options.items()}
    return lambda: torch_npu.npu_fused_infer_attention_score_v2(query, key, value, **options), [key, value]


@operator
def fused_infer_attention_score_in_a_task_group(pages: int) -> Any:
    query, options, (key, value) = fused(pages)
    out = [torch.empty_like(query), torch.empty(1, device="npu")]

    def call() -> None:
        stream = torch.npu.current_stream()
        torch.npu.graph_task_group_begin(stream)
        torch_npu.npu_fused_infer_attention_score.out(query, key, value, **options, out=out)
        torch.npu.graph_task_group_end(stream)

    return call, [key, value]


@operator
def paged_attention(pages: int) -> Any:
    key, value = caches(pages, PLACES, HEADS, SIZE)
    query = half(3, 2 * HEADS, SIZE)
    out = torch.empty_like(query)
    table = torch.tensor([[0, 2], [1, 0], [2, 1]], dtype=torch.int32, device="npu")
    lengths = torch.tensor([20, 3, 31], dtype=torch.int32)
    return lambda: torch_npu._npu_paged_attention(query, key, value, HEADS, 2 * HEADS, 0.2, table, lengths, out), [
        key,
        value,
    ]


@operator
def gather_pa_kv_cache(pages: int) -> Any:
    key, value = caches(pages, PLACES, HEADS, SIZE)
    table = torch.tensor([[0, 2], [1, 0]], dtype=torch.int32, device="npu")
    lengths = torch.tensor([20, 3], dtype=torch.int32, device="npu")
    rows = [half(23, HEADS, SIZE) for _ in range(2)]
    return lambda: torch_npu.npu_gather_pa_kv_cache(key, value, table, lengths, *rows), [key, value]


@operator
def kv_rmsnorm_rope_cache(pages: int) -> Any:
    key, latent = caches(pages, PLACES, 1, 16)
    tables, x, gamma = [half(3, 1, 1, 16, seed=i) for i in range(2)], half(3, 1, 1, 32), half(16)
    index = slots().long()
    return lambda: torch_npu.npu_kv_rmsnorm_rope_cache_v2(x, gamma, *tables, index, key, latent, cache_mode="PA"), [
        key,
        latent,
    ]


@operator
def index_copy(pages: int) -> Any:
    cache, rows, index = half(2, HEADS, pages * PLACES, SIZE), half(2, HEADS, 1, SIZE), slots()[:1].long()
    return lambda: cache.index_copy_(2, index, rows), [cache]


@operator
def index_put(pages: int) -> Any:
    cache, rows, index = half(pages * PLACES, HEADS, SIZE), half(3, HEADS, SIZE), slots().abs().long()

    def call() -> None:
        cache[index] = rows

    return call, [cache]


@operator
def one_row_of_each_head(pages: int) -> Any:
    cache, rows = half(2, HEADS, pages * PLACES, SIZE), half(2, HEADS, SIZE)
    return lambda: cache[:, :, 5].copy_(rows), [cache]


def allocated_by(fn: Callable[[], Any]) -> int:
    _C.allocations_start()
    try:
        fn()
    finally:
        rows = _C.allocations_stop()
    return sum(size for _, _, size in rows)


def measured(make: Make, pages: int) -> tuple[int, int]:
    """Returns the bytes that a capture of the call allocates, and those that a replay allocates. Checks that the replay
    keeps no memory and copies none of the caches."""
    call, cached = make(pages)
    before = [x.clone() for x in cached]
    graphs = []
    captured = allocated_by(lambda: graphs.append(capture(call)))
    ((graph, results),) = graphs
    for x, y in zip(cached, before, strict=True):
        assert torch.equal(x, y)
    small = (
        sum(x.nbytes for x in results or [] if x.untyped_storage().data_ptr() not in _places(cached))
        if isinstance(results, (tuple, list))
        else 0
    )
    assert kept_by_replay(graph) == 0
    assert copied_by_replay(graph) <= small
    changed = [x.clone() for x in cached]
    graph.replay()
    for x, y in zip(cached, changed, strict=True):
        assert torch.equal(x, y)  # each replay writes the same values
    return captured, allocated_by(graph.replay)


def _places(values: list[torch.Tensor]) -> set[int]:
    return {x.untyped_storage().data_ptr() for x in values}


@pytest.mark.parametrize("name", OPERATORS)
def test_costs_do_not_grow_with_caches(name: str) -> None:
    small, large = (measured(OPERATORS[name], pages) for pages in (4, 400))
    page = PLACES * HEADS * SIZE * 2
    captured, replayed = (b - a for a, b in zip(small, large, strict=True))
    assert replayed <= 0, f"a replay allocates {replayed} bytes more with caches of more pages"
    assert captured < 100 * page, f"a capture allocates {captured} bytes more with caches of more pages"


def test_replays_after_updates_keep_nothing() -> None:
    """A decode step of vllm-ascend: a replay, an update of its attention to new lengths, and the event between them."""
    query, options, (key, value) = fused(40)
    out = [torch.empty_like(query), torch.empty(1, device="npu")]
    event, handles = torch.npu.ExternalEvent(), []

    def attend(lengths: list[int]) -> None:
        arguments = options | {"actual_seq_lengths_kv": lengths}
        torch_npu.npu_fused_infer_attention_score.out(query, key, value, **arguments, out=out)

    def step() -> None:
        stream = torch.npu.current_stream()
        event.wait(stream)
        event.reset(stream)
        torch.npu.graph_task_group_begin(stream)
        attend([1, 1, 1])
        handles.append(torch.npu.graph_task_group_end(stream))

    graph, _ = capture(step)
    others = torch.npu.Stream()
    for lengths in ([20, 3, 31], [21, 4, 32], [22, 5, 17]):
        before = torch.npu.memory_allocated()
        graph.replay()
        with torch.npu.stream(others):
            torch.npu.graph_task_update_begin(others, handles[0])
            attend(lengths)
            torch.npu.graph_task_update_end(others)
            event.record(others)
        assert torch.npu.memory_allocated() == before
        assert copied_by_replay(graph) == 0
        got = out[0].clone()
        attend(lengths)
        assert torch.equal(got, out[0])


def test_memory_that_an_operator_keeps_is_its_own() -> None:
    kept: list[torch.Tensor] = []
    with torch.library._scoped_library("graph_memory_test", "DEF") as library:
        library.define("keep(Tensor x) -> Tensor")

        def keep(x: torch.Tensor) -> torch.Tensor:
            kept.append(x)
            return x + 1

        library.impl("keep", keep, "PrivateUse1")
        library.impl("keep", torch.empty_like, "Meta")
        x = torch.zeros(1 << 18, device="npu")
        compiled = torch.compile(lambda x: torch.ops.graph_memory_test.keep(x * 2), backend="npugraph_ex")
        compiled(x)
        kept.clear()
        before = torch.npu.memory_allocated()
        y = compiled(x)
        assert torch.npu.memory_allocated() - before == 2 * x.nbytes  # y and the kept tensor
        kept.clear()
        assert torch.npu.memory_allocated() - before == y.nbytes
