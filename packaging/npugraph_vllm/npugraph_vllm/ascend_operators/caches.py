# SPDX-License-Identifier: Apache-2.0
"""Writes into caches of keys and values, and copies of their blocks. Rows for slots below 0 are not written."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from npugraph_vllm.ascend_operators.definitions import composite, whole

npu = torch.ops.npu


@composite("npu_scatter_nd_update_sk")
def scatter_nd_update(var: Tensor, indices: Tensor, update: Tensor) -> None:
    npu.npu_scatter_nd_update_(var, indices, update)


@composite("npu_scatter_pa_kv_cache")
def scatter_pa_kv_cache(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    cache_mode: str,
    scatter_mode: str,
) -> None:
    """With scatter_mode NHSD pages are (heads, places, size), else (places, heads, size)."""
    if scatter_mode == "NHSD":
        key_cache, value_cache = key_cache.transpose(1, 2), value_cache.transpose(1, 2)
    npu.npu_scatter_pa_kv_cache(key, value, key_cache, value_cache, slot_mapping, cache_mode=cache_mode)


@whole("store_kv_block_metadata", fake=lambda **_: None)
def store_kv_block_metadata(
    slot_mapping_npu: Tensor, group_len: Tensor, group_key_idx: Tensor, group_key_cache_idx: Tensor, block_size: int
) -> None:
    """Makes groups of rows for store_kv_block: each row is one, of length 0 where it is not written."""
    slots = slot_mapping_npu.flatten()
    group_len.zero_()
    group_len[: len(slots)] = slots >= 0
    group_key_idx[: len(slots)] = torch.arange(len(slots), device=slots.device)
    group_key_cache_idx[: len(slots)] = slots


@whole("store_kv_block", fake=lambda **_: None)
def store_kv_block(
    key_in: Tensor,
    key_cache_in: Tensor,
    group_len: Tensor,
    group_key_idx: Tensor,
    group_key_cache_idx: Tensor,
    block_size: int,
) -> None:
    rows = key_in.view(key_in.shape[0], -1)
    count = len(rows)
    slots = torch.where(group_len[:count] > 0, group_key_cache_idx[:count], -1)
    npu.npu_scatter_nd_update_(key_cache_in.view(-1, rows.shape[1]), slots.unsqueeze(1), rows)


@whole("swap_blocks", fake=lambda **_: None)
def swap_blocks(x: Tensor, y: Tensor, z: Tensor) -> None:
    """y[to] = x[from] for the rows (from, to) of z; x and y may be on different devices."""
    source, target = z.long().unbind(1)
    blocks = x.index_select(0, source.to(x.device)).to(y.device)
    y.index_copy_(0, target.to(y.device), blocks)


@whole("swap_blocks_batch", fake=lambda **_: None)
def swap_blocks_batch(x: Tensor, y: Tensor, z: Tensor, direction: int) -> None:
    """Copies z[i] bytes from address x[i] to address y[i]. Memory of npu has addresses of the host, so all directions
    are the same."""
    torch.npu.current_stream().synchronize()
    for source, target, size in zip(x.tolist(), y.tolist(), z.tolist(), strict=True):
        ctypes.memmove(target, source, size)
