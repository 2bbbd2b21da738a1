# SPDX-License-Identifier: Apache-2.0
"""Operators of ``_C_ascend`` that write or copy parts of caches."""

from __future__ import annotations

import npugraph_vllm.ascend_c  # noqa: F401
import pytest
import torch

from tests.python.device.npu_operators import check, integers, normal

ops = torch.ops._C_ascend
PAGES, PLACES, HEADS, SIZE = 4, 8, 2, 16


def slots(rows: int) -> torch.Tensor:
    """Different slots, of which the first is that of no row."""
    found = torch.randperm(PAGES * PLACES, generator=torch.Generator().manual_seed(1))[:rows].int()
    found[0] = -1
    return found


def scatter_rows(cache, indices, rows):
    for slot, row in zip(indices.flatten().tolist(), rows, strict=True):
        if slot >= 0:
            cache[slot] = row


@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("rows", [3, 20])
def test_scatter_rows(rows: int, dtype: torch.dtype) -> None:
    cache, updates = normal(PAGES * PLACES, SIZE).to(dtype), (normal(rows, SIZE, seed=1) * 9).to(dtype)
    args = cache, slots(rows).view(-1, 1).long(), updates
    check(ops.npu_scatter_nd_update_sk, args, scatter_rows, dynamic=False, compiled=dtype == torch.bfloat16)


@pytest.mark.parametrize("mode", ["None", "NHSD"])
@pytest.mark.parametrize("rows", [3, 20])
def test_scatter_pages(rows: int, mode: str) -> None:
    shape = (PAGES, HEADS, PLACES, SIZE) if mode == "NHSD" else (PAGES, PLACES, HEADS, SIZE)
    caches = [normal(*shape, seed=seed) for seed in (1, 2)]
    key, value = (normal(rows, HEADS, SIZE, seed=seed) for seed in (3, 4))

    def reference(key, value, key_cache, value_cache, slot_mapping, *, scatter_mode):
        for rows, cache in ((key, key_cache), (value, value_cache)):
            for slot, row in zip(slot_mapping.tolist(), rows, strict=True):
                if slot >= 0:
                    page = cache[slot // PLACES]
                    (page.transpose(0, 1) if scatter_mode == "NHSD" else page)[slot % PLACES] = row

    args = key, value, *caches, slots(rows)
    check(ops.npu_scatter_pa_kv_cache, args, reference, dynamic=False, whole=True, scatter_mode=mode)


@pytest.mark.parametrize("rows", [3, 20])
def test_store_blocks(rows: int) -> None:
    """The groups are made in buffers for more rows, which hold those of an earlier step."""
    where, keys = slots(rows).to("npu"), normal(rows, SIZE)
    groups = [integers(0, 9, 24, dtype=torch.int32, seed=seed).to("npu") for seed in range(3)]
    cache = normal(PAGES, PLACES, 1, SIZE, seed=1)
    want, got = cache.clone(), cache.to("npu")
    ops.store_kv_block_metadata(where, *groups, PLACES)
    ops.store_kv_block(keys.to("npu"), got, *groups, PLACES)
    scatter_rows(want.view(-1, SIZE), where.cpu(), keys)
    assert torch.equal(got.cpu(), want)


@pytest.mark.parametrize("devices", [("npu", "cpu"), ("cpu", "npu"), ("npu", "npu")])
def test_swap_blocks(devices: tuple[str, str]) -> None:
    source, target = normal(PAGES, PLACES, SIZE), normal(PAGES, PLACES, SIZE, seed=1)
    pairs = torch.tensor([[0, 3], [2, 1]])
    got = target.to(devices[1], copy=True)
    ops.swap_blocks(source.to(devices[0]), got, pairs)
    target[3], target[1] = source[0], source[2]
    assert torch.equal(got.cpu(), target)


@pytest.mark.parametrize("devices", [("npu", "cpu"), ("cpu", "npu")])
def test_swap_blocks_batch(devices: tuple[str, str]) -> None:
    """Blocks are given by their addresses; the copy comes after what is queued on the stream."""
    source, target = normal(PAGES, SIZE).to(devices[0]), torch.zeros(PAGES, SIZE, device=devices[1])
    source.mul_(2)
    size = source[0].nbytes
    sources = torch.tensor([source[i].data_ptr() for i in (0, 3)])
    targets = torch.tensor([target[i].data_ptr() for i in (2, 1)])
    ops.swap_blocks_batch(sources, targets, torch.tensor([size, size]), 0)
    want = torch.zeros(PAGES, SIZE)
    want[2], want[1] = source[0].cpu(), source[3].cpu()
    assert torch.equal(target.cpu(), want)
