# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/tensors/scatter.cc and paged_cache.cc."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, check_close, integers, normal


def functional(in_place, *written):
    """Returns a function that calls ``in_place`` on copies of its arguments and returns the written copies."""

    def call(*args, **kwargs):
        args = [
            [y.clone() for y in x] if isinstance(x, list) else x.clone() if isinstance(x, torch.Tensor) else x
            for x in args
        ]
        in_place(*args, **kwargs)
        results = tuple(args[i] for i in written)
        return results if len(results) > 1 else results[0]

    return call


def scatter_update_(x, indices, updates, axis):
    for i, index in enumerate(indices.tolist()):
        row, start = (i, index) if isinstance(index, int) else index
        if start >= 0:
            x[row].movedim(axis if axis < 0 else axis - 1, 0)[start : start + updates.shape[axis]] = updates[i].movedim(
                axis if axis < 0 else axis - 1, 0
            )
    return x


@pytest.mark.parametrize(
    ("indices", "updates", "axis"),
    [
        (torch.tensor([4, 0, 2]), (3, 2, 1, 4), -2),
        (torch.tensor([3, -1]), (2, 2, 2, 4), 2),
        (torch.tensor([[2, 3], [0, 1]], dtype=torch.int32), (2, 2, 5, 1), -1),
    ],
)
def test_scatter_update(indices: torch.Tensor, updates: tuple[int, ...], axis: int) -> None:
    args = (normal(3, 2, 5, 4), indices, normal(*updates, seed=1), axis)
    check(torch_npu.scatter_update_, args, scatter_update_)
    check(torch_npu.scatter_update, args, functional(scatter_update_, 0))


def scatter_nd_update_(x, indices, updates):
    places = indices.reshape(-1, indices.shape[-1]).tolist()
    for place, row in zip(places, updates.reshape(len(places), *x.shape[indices.shape[-1] :]), strict=True):
        if min(place) >= 0:
            x[tuple(place)] = row
    return x


@pytest.mark.parametrize(
    ("indices", "updates"),
    [
        (torch.tensor([[3], [0], [-1]]), (3, 5, 2)),
        (torch.tensor([[[3, 1], [0, 0]], [[1, -1], [2, 4]]], dtype=torch.int32), (2, 2, 2)),
        (torch.tensor([1, 2, 1]), ()),
    ],
)
def test_scatter_nd_update(indices: torch.Tensor, updates: tuple[int, ...]) -> None:
    args = (normal(4, 5, 2, dtype=torch.float16), indices, normal(*updates, dtype=torch.float16, seed=1))
    check(torch_npu.npu_scatter_nd_update_, args, scatter_nd_update_)
    check(torch_npu.npu_scatter_nd_update, args, functional(scatter_nd_update_, 0))


def test_rows_that_are_all_skipped_leave_all_as_it_is() -> None:
    x = normal(3, 4)
    assert torch.equal(torch_npu.npu_scatter_nd_update(x, torch.tensor([[-1], [-5]]), torch.zeros(2, 4)), x)
    assert torch.equal(torch_npu.npu_scatter_nd_update(x, torch.empty(0, 1).long(), torch.zeros(0, 4)), x)


def quant_scatter_(x, indices, updates, scales, points=None, axis=-2, quant_axis=-1, reduce="update"):
    shape = [1] * x.ndim
    shape[quant_axis] = -1
    points = 0 if points is None else points.view(shape)
    return scatter_update_(
        x, indices, (updates / scales.view(shape) + points).round().clamp(-128, 127).to(x.dtype), axis
    )


def test_quant_scatter() -> None:
    x = integers(-9, 9, 3, 2, 5, 4, dtype=torch.int8)
    args = (x, torch.tensor([1, 4, -1]), normal(3, 2, 1, 4), torch.tensor([0.02, 0.1, 0.001, 0.03]))
    check(torch_npu.npu_quant_scatter_, args, quant_scatter_)
    check(torch_npu.npu_quant_scatter, args, functional(quant_scatter_, 0))
    points = torch.tensor([3, -4], dtype=torch.int32)
    args = (x, args[1], args[2], torch.tensor([0.02, 0.1]), points)
    check(torch_npu.npu_quant_scatter, args, functional(quant_scatter_, 0), quant_axis=1)


def test_scatter_writes_rows_at_their_indices() -> None:
    x, indices, updates = normal(3, 4, 5), integers(0, 4, 3, 5, dtype=torch.int32), normal(3, 5, seed=1)

    def reference(x, indices, updates, dim):
        out = x.clone()
        for i in range(3):
            for j in range(5):
                out[i, indices[i, j], j] = updates[i, j]
        return out

    check(torch_npu.npu_scatter, (x, indices, updates, 1), reference)


def scatter_list_(x, indices, updates, mask=None, reduce="update", axis=-2):
    for i, start in enumerate(indices.tolist()):
        if mask is None or mask[i]:
            x[i].movedim(axis, 0)[start : start + updates.shape[axis]] = updates[i].movedim(axis, 0)


def test_scatter_list() -> None:
    x = [normal(2, 5, 4, seed=i) for i in range(3)]
    args = (x, torch.tensor([1, 3, 0]), normal(3, 2, 2, 4), torch.tensor([1, 0, 1], dtype=torch.uint8))
    check(torch_npu.npu_scatter_list, args, functional(scatter_list_, 0))
    check(torch_npu.npu_scatter_list, (x, args[1], normal(3, 2, 5, 1)), functional(scatter_list_, 0), axis=-1)
    check(torch_npu.npu_scatter_list_, args, scatter_list_, whole=True)


def put_pages(tokens, cache, slots):
    """Writes each token to its slot of ``cache``, which is [pages, places, ...]. Skips negative slots."""
    for token, slot in zip(tokens, slots.tolist(), strict=True):
        if slot >= 0:
            cache[slot // cache.shape[1], slot % cache.shape[1]] = token.reshape(cache.shape[2:])


def scatter_pa_kv_cache(key, value, key_cache, value_cache, slots, cache_mode=None):
    for tokens, cache in ((key, key_cache), (value, value_cache)):
        put_pages(tokens, cache if cache_mode == "Norm" else cache.transpose(1, 2), slots)


SLOTS = torch.tensor([9, 0, -1, 15, -1], dtype=torch.int32)


def test_scatter_into_pages() -> None:
    key, value = normal(5, 2, 4, dtype=torch.float16), normal(5, 2, 8, dtype=torch.float16, seed=1)
    caches = (normal(4, 4, 2, 4, dtype=torch.float16, seed=2), normal(4, 4, 2, 8, dtype=torch.float16, seed=3))
    args = (key, value, *caches, SLOTS)
    op = torch_npu.npu_scatter_pa_kv_cache
    check(op, args, scatter_pa_kv_cache, cache_mode="Norm", whole=True)
    check(
        torch_npu.npu_scatter_pa_kv_cache_functional,
        args,
        functional(scatter_pa_kv_cache, 2, 3),
        cache_mode="Norm",
    )
    pieces = (normal(4, 2, 3, 4, dtype=torch.float16), normal(4, 4, 3, 4, dtype=torch.float16, seed=1))
    args = (key, value, *pieces, SLOTS[:5].clamp_max(11))
    check(op, args, scatter_pa_kv_cache, cache_mode="PA_NZ", whole=True)


def test_shape_decides_where_cache_mode_is_left_out() -> None:
    key, caches = normal(5, 2, 4), [torch.zeros(4, 4, 2, 4), torch.zeros(4, 4, 2, 4)]
    torch_npu.npu_scatter_pa_kv_cache(key, key, *caches, SLOTS)
    want = torch.zeros(4, 4, 2, 4)
    put_pages(key, want, SLOTS)
    assert all(torch.equal(cache, want) for cache in caches)


def test_pages_of_atb() -> None:
    args = (normal(5, 2, 4), normal(5, 2, 8), normal(4, 4, 2, 4), normal(4, 4, 2, 8), SLOTS)
    check(
        torch_npu._npu_reshape_and_cache,
        args,
        lambda *args: scatter_pa_kv_cache(*args, cache_mode="Norm"),
        whole=True,
    )
    args = (normal(5, 1, 8), normal(4, 4, 1, 8, seed=1), SLOTS)
    check(torch_npu._npu_reshape_and_cache_siso, args, put_pages, whole=True)


def test_scatter_into_one_cache() -> None:
    def reference(key, slots, *, key_cache):
        put_pages(key, key_cache, slots)
        return key_cache

    check(torch_npu.npu_scatter_pa_cache, (normal(5, 8), SLOTS), reference, key_cache=normal(4, 4, 8, seed=1))


def gather_pages(key_cache, value_cache, tables, lengths, key, value, *, seq_offset=None, is_seq_lens_cumsum=False):
    lengths = lengths.tolist()
    if is_seq_lens_cumsum:
        lengths = lengths if len(lengths) == len(tables) + 1 else [0, *lengths]
        lengths = [end - start for start, end in itertools.pairwise(lengths)]
    offsets = [0] * len(lengths) if seq_offset is None else seq_offset.tolist()
    places = [(b, offset + i) for b, (n, offset) in enumerate(zip(lengths, offsets, strict=True)) for i in range(n)]
    for cache, tokens in ((key_cache, key), (value_cache, value)):
        for row, (sequence, i) in enumerate(places):
            page = int(tables[sequence, i // cache.shape[1]])
            tokens[row] = cache[page, i % cache.shape[1]] if 0 <= page < cache.shape[0] else 0


@pytest.mark.parametrize(
    ("lengths", "kwargs"),
    [
        ([3, 0, 6], {}),
        ([3, 3, 9], {"is_seq_lens_cumsum": True}),
        ([0, 3, 3, 9], {"is_seq_lens_cumsum": True}),
        ([3, 2, 4], {"seq_offset": torch.tensor([4, 0, 2], dtype=torch.int32)}),
    ],
)
def test_gather_from_pages(lengths: list[int], kwargs: dict) -> None:
    tables = torch.tensor([[3, 0], [1, 1], [2, -1]], dtype=torch.int32)
    args = (
        *(normal(4, 4, 2, 4), normal(4, 4, 2, 8, seed=1), tables, torch.tensor(lengths, dtype=torch.int32)),
        *(normal(10, 2, 4, seed=2), normal(10, 2, 8, seed=3)),
    )
    check(torch_npu.npu_gather_pa_kv_cache, args, gather_pages, whole=True, **kwargs)
    if not kwargs:
        check(torch_npu.npu_gather_pa_kv_cache_functional, args, functional(gather_pages, 4, 5))


def test_gather_from_pieces() -> None:
    cache = normal(4, 2, 4, 4)
    tables, lengths, into = torch.tensor([[2, 1]]), torch.tensor([7]), torch.zeros(7, 2, 4)
    torch_npu.npu_gather_pa_kv_cache(cache, cache, tables, lengths, into, into.clone())
    norm = cache.transpose(1, 2).contiguous()
    want = torch.zeros(7, 2, 4)
    gather_pages(norm, norm, tables, lengths, want, want)
    check_close(into, want)


def test_advance_step() -> None:
    def reference(tokens, sampled, positions, lengths, slots, tables, num_seqs, num_queries, size):
        for i in range(num_queries):
            tokens[i] = sampled[i, 0]
            positions[i] = lengths[i]
            lengths[i] += 1
            slots[i] = tables[i, int(positions[i]) // size] * size + positions[i] % size

    lengths, tables = torch.tensor([3, 4, 7, 9], dtype=torch.int32), integers(0, 9, 4, 3, dtype=torch.int32)
    state = (torch.zeros(4).long(), integers(0, 9, 3, 1), torch.zeros(4).long(), lengths, torch.zeros(4).long(), tables)
    check(torch_npu.npu_advance_step_flashattn, (*state, 4, 3, 4), reference, whole=True)


CACHE, KEY, ONE = torch.zeros(4, 4, 2, 4), torch.zeros(1, 2, 4), torch.zeros(1).int()


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "message"),
    [
        ("scatter_update", (KEY, ONE, KEY, 0), {}, "scatter_update: axis is 0, along which indices are"),
        (
            "scatter_update",
            (KEY, ONE.expand(1, 3), KEY, 1),
            {},
            r"indices has shape \[1, 3\], allowed are \(n\) and \(n, 2\)",
        ),
        (
            "npu_scatter_nd_update",
            (ONE, ONE.expand(1, 3), ONE),
            {},
            "the last dimension of indices has size 3, and input 1",
        ),
        ("npu_quant_scatter", (KEY, ONE, KEY, ONE), {}, "npu_quant_scatter: input is of type Float, allowed are Char"),
        ("npu_quant_scatter", (KEY.char(), ONE, KEY, ONE), {"reduce": "add"}, "reduce is 'add', allowed is 'update'"),
        ("npu_scatter_list", ([KEY], ONE, KEY), {}, "updates has 3 dimensions, one more than each of input"),
        (
            "npu_scatter_pa_kv_cache",
            (KEY, KEY, CACHE, CACHE, ONE),
            {"cache_mode": "X"},
            "allowed are 'Norm' and 'PA_NZ'",
        ),
        (
            "npu_scatter_pa_kv_cache",
            (KEY, KEY, CACHE, CACHE[..., :3], ONE),
            {"cache_mode": "Norm"},
            r"value_cache has shape \[4, 4, 2, 3\], and tokens have shape \[2, 4\]: allowed are pages of",
        ),
        ("npu_scatter_pa_kv_cache", (KEY, KEY, CACHE, CACHE, ONE), {"seq_lens": ONE}, "are not supported on the host"),
        (
            "npu_advance_step_flashattn",
            (ONE, ONE, ONE, ONE, ONE, KEY, 1, 2, 4),
            {},
            "num_queries is 2, more than num_seqs, 1",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(name: str, args: tuple, kwargs: dict, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        getattr(torch_npu, name)(*args, **kwargs)


def test_a_slot_beyond_the_cache() -> None:
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        torch_npu._npu_reshape_and_cache_siso(KEY, CACHE, ONE + 16)
