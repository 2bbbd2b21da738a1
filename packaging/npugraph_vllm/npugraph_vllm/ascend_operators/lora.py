# SPDX-License-Identifier: Apache-2.0
"""Products of rows with weights of low rank: each row takes the weights of its adapter, or none where that is -1.

One product with the weights of all adapters is used instead of a copy of the weights for each row, because there are
few adapters and, in a prefill, many rows. Sums are in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph_vllm.ascend_operators.definitions import composite, whole


def _matrices(weight: Tensor) -> Tensor:
    """[adapters, columns of the result, columns of rows] in float32 of weights that may have a dimension of size 1."""
    return (weight.squeeze(1) if weight.dim() == 4 else weight).float()


def _of_rows(adapters: Tensor, seq_len: Tensor, rows: int) -> Tensor:
    """The adapter of each row, from those of sequences and their lengths. Rows behind the last sequence have none."""
    ends = seq_len.cumsum(0)
    place = torch.searchsorted(ends, torch.arange(rows, device=ends.device, dtype=ends.dtype), right=True)
    return torch.where(place < len(adapters), adapters[place.clamp(max=len(adapters) - 1)], -1)


def _hits(adapters: Tensor, count: int) -> Tensor:
    """[rows, adapters]: whether the row takes the weights of the adapter."""
    return adapters.unsqueeze(1) == torch.arange(count, device=adapters.device, dtype=adapters.dtype)


def _shrink(x: Tensor, weight: Tensor, adapters: Tensor, y: Tensor, scale: float) -> None:
    matrices = _matrices(weight)
    count, rank, _ = matrices.shape
    hits = _hits(adapters, count)
    products = (x.float() @ matrices.flatten(0, 1).t()).unflatten(1, (count, rank))
    result = scale * (products * hits.unsqueeze(2)).sum(1)
    target = y[:, :rank]
    target.copy_(torch.where(hits.any(1, keepdim=True), result.to(y.dtype), target))


def _expand(x: Tensor, weight: Tensor, adapters: Tensor, y: Tensor, slice_offset: int, slice_size: int) -> Tensor:
    matrices = _matrices(weight)
    count, _, rank = matrices.shape
    placed = _hits(adapters, count).unsqueeze(2) * x[:, :rank].float().unsqueeze(1)
    product = torch.einsum("tar,anr->tn", placed, matrices[:, :slice_size])
    target = y[:, slice_offset : slice_offset + slice_size]
    target.copy_(target.float() + product)
    return y.clone()  # by its schema the result shares no memory with y


@composite("bgmv_shrink")
def bgmv_shrink(x: Tensor, weight: Tensor, indices: Tensor, y: Tensor, scale: float) -> None:
    _shrink(x, weight, indices, y, scale)


@composite("sgmv_shrink")
def sgmv_shrink(x: Tensor, weight: Tensor, lora_indices: Tensor, seq_len: Tensor, y: Tensor, scale: float) -> None:
    _shrink(x, weight, _of_rows(lora_indices, seq_len, x.shape[0]), y, scale)


# vllm-ascend registers fake kernels for operators that have none, which a composite operator may not have.


@whole("bgmv_expand", fake=lambda y, **_: torch.empty_like(y))
def bgmv_expand(x: Tensor, weight: Tensor, indices: Tensor, y: Tensor, slice_offset: int, slice_size: int) -> Tensor:
    return _expand(x, weight, indices, y, slice_offset, slice_size)


@whole("sgmv_expand", fake=lambda y, **_: torch.empty_like(y))
def sgmv_expand(
    x: Tensor, weight: Tensor, lora_indices: Tensor, seq_len: Tensor, y: Tensor, slice_offset: int, slice_size: int
) -> Tensor:
    return _expand(x, weight, _of_rows(lora_indices, seq_len, x.shape[0]), y, slice_offset, slice_size)
