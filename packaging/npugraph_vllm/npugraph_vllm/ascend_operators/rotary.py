# SPDX-License-Identifier: Apache-2.0
"""Rotary embeddings."""

from __future__ import annotations

import torch
from torch import Tensor

from npugraph_vllm.ascend_operators.definitions import composite, whole

npu = torch.ops.npu


def _fake_rotary_embedding(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, **_: object
) -> tuple[Tensor, Tensor]:
    rows = positions.numel()
    return tuple(torch.empty_like(x).view(rows, -1, head_size) for x in (query, key))


# vllm-ascend registers a fake kernel for it if it has none, which a composite operator may not have.
@whole("rotary_embedding", fake=_fake_rotary_embedding)
def rotary_embedding(
    positions: Tensor, query: Tensor, key: Tensor, head_size: int, cos_sin_cache: Tensor, is_neox: bool
) -> tuple[Tensor, Tensor]:
    """Rotates query and key in place. The results are copies, one row of heads for each position."""
    rows = positions.numel()
    mode = "half" if is_neox else "interleave"
    cache = cos_sin_cache.to(query.dtype)
    turned = npu.npu_mrope(
        positions.flatten().long(), query.reshape(rows, -1), key.reshape(rows, -1), cache, head_size, rotary_mode=mode
    )
    for x, y in zip((query, key), turned, strict=True):
        x.copy_(y.view(x.shape))
    return tuple(y.view(rows, -1, head_size) for y in turned)


@composite("inplace_partial_rotary_mul")
def inplace_partial_rotary_mul(
    x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str, partial_slice: list[int], negate_sin: bool
) -> None:
    start, end = partial_slice
    part = x[..., start:end]
    part.copy_(npu.npu_rotary_mul(part, r1, -r2 if negate_sin else r2, rotary_mode))
