# SPDX-License-Identifier: Apache-2.0
"""The operator ``npugraph::attention``, which passes put in place of attention with a mask of positions.

The function here defines its meaning, and runs where no code can be generated. The operator is for inference: no
gradients flow through it.
"""

from __future__ import annotations

import torch

torch.library.define(
    "npugraph::attention",
    "(Tensor query, Tensor key, Tensor value, Tensor? mask=None, Tensor? position=None, *, int? before=None, "
    "int? after=None, bool at_end=False, bool empty_is_nan=False, float? scale=None) -> Tensor",
)


@torch.library.impl("npugraph::attention", "CompositeExplicitAutograd")
def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    position: torch.Tensor | None = None,
    *,
    before: int | None = None,
    after: int | None = None,
    at_end: bool = False,
    empty_is_nan: bool = False,
    scale: float | None = None,
) -> torch.Tensor:
    """Computes attention of [batch, heads, rows, size]. Query i sees the keys from i + p - ``before`` to
    i + p + ``after``, inclusive; a bound that is None does not limit.

    p is the number of keys minus the number of queries with ``at_end``, or else ``position``, or else 0. ``mask`` hides
    more keys: where it is false, or by the numbers that it adds to the scores. A query that sees no key gives zeros, or
    NaN with ``empty_is_nan``.
    """
    queries, keys = query.shape[-2], key.shape[-2]
    if 0 in (*query.shape[:-1], keys):  # torch's kernel would divide by 0
        return query.new_zeros((*query.shape[:-1], value.shape[-1]))
    places = torch.arange(queries)[:, None] + (keys - queries if at_end else 0 if position is None else position.item())
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if after is not None:
        seen &= torch.arange(keys) <= places + after
    if before is not None:
        seen &= torch.arange(keys) >= places - before
    if mask is not None and mask.dtype == torch.bool:
        seen = seen & mask
    of_scores = torch.promote_types(query.dtype, torch.float32)
    added = torch.zeros((), dtype=of_scores) if mask is None or mask.dtype == torch.bool else mask.to(of_scores)
    added = torch.where(seen, added, float("-inf"))
    if value.shape[-1] == query.shape[-1]:
        flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        result = flash(query, key, value, attn_mask=added, scale=scale)[0]
    else:
        written_out = torch.ops.aten._scaled_dot_product_attention_math
        result = written_out(query, key, value, added, scale=scale, enable_gqa=True)[0]
    if empty_is_nan and keys > 0:
        result.masked_fill_((added == float("-inf")).all(-1, keepdim=True), float("nan"))
    return result


@torch.library.register_fake("npugraph::attention")
def _(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    if value.shape[-1] == query.shape[-1]:
        return torch.empty_like(query)
    return query.new_empty((*query.shape[:-1], value.shape[-1]))
