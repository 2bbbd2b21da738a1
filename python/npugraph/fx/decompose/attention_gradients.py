# SPDX-License-Identifier: Apache-2.0
"""Gradients of attention -> products and elementwise operators, whose code is generated.

ATen computes the gradients block by block, because it keeps no scores. Where all scores fit into a cache, products of
whole matrices are faster:

    p = exp(q @ k.T * scale + mask - logsumexp)    grad_v = p.T @ grad
    ds = p * (grad @ v.T - sum(grad * out))        grad_q = ds @ k * scale    grad_k = ds.T @ q * scale

Scores are f32. Probabilities and their gradients are rounded to the type of the operands before they are multiplied, as
in ATen.
"""

from __future__ import annotations

import math

import torch
from torch import fx

from npugraph.fx.decompose.parts import Parts
from npugraph.fx.schema import arguments_by_name

aten = torch.ops.aten
OPERATOR = aten._scaled_dot_product_flash_attention_for_cpu_backward.default

MOST_SCORES = 1 << 21  # 8 MiB


def parts_of(node: fx.Node) -> Parts | None:
    """Returns ``attention_gradients`` for a node with at most ``MOST_SCORES`` scores, and no dropout."""
    given = arguments_by_name(OPERATOR, node.args, node.kwargs)
    query, key = given["query"].meta["val"], given["key"].meta["val"]
    sizes = [*query.shape[:3], key.shape[2]]
    if given["dropout_p"] != 0 or query.shape[1] != key.shape[1] or not all(isinstance(size, int) for size in sizes):
        return None
    return attention_gradients if math.prod(sizes) <= MOST_SCORES else None


def attention_gradients(
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    dropout: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, ...]:
    """Returns the gradients of query, key and value, each [batch, head, place, element] and laid out as ATen's:
    [batch, place, head, element] in memory. Takes the arguments of ``OPERATOR``."""
    dtype = query.dtype
    scale = scale if scale is not None else 1 / math.sqrt(query.shape[-1])
    scores = torch.matmul(query.float(), key.float().transpose(-2, -1)) * scale
    if attn_mask is not None:
        scores = scores + attn_mask
    if is_causal:
        places = torch.arange(key.shape[2], device=query.device)
        seen = places <= torch.arange(query.shape[2], device=query.device)[:, None]
        scores = torch.where(seen, scores, -math.inf)
    # A row that sees no key has no largest score, and all of its probabilities are 0.
    scores = scores - torch.where(logsumexp == -math.inf, 0.0, logsumexp)[..., None]
    p = torch.exp(scores)
    total = (grad.float() * out.float()).sum(-1, keepdim=True)
    ds = p * (torch.matmul(grad.float(), value.float().transpose(-2, -1)) - total)
    p, ds = p.to(dtype), (ds * scale).to(dtype)
    grads = torch.matmul(ds, key), torch.matmul(ds.transpose(-2, -1), query), torch.matmul(p.transpose(-2, -1), grad)
    return tuple(each.transpose(1, 2).contiguous().transpose(1, 2) for each in grads)
