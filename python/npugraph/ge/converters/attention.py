# SPDX-License-Identifier: Apache-2.0
"""Converters of attention."""

from __future__ import annotations

import math
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import known, operand
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

_EVERY = 2**31 - 1  # a number of tokens that no sequence has


@register_fx_node_ge_converter(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default)
def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: Any = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: Any = None,
    meta_outputs: Any,
) -> list[Tensor | None]:
    """Tensors are [batch, heads, tokens, width]. The second result, the logarithms of sums, is not computed."""
    if known("dropout_p", dropout_p) != 0:
        raise NotImplementedError(f"its argument dropout_p is {dropout_p!r}")
    if is_causal and attn_mask is not None:
        raise NotImplementedError("it has a mask and is causal")
    result = ge.PromptFlashAttention(
        query,
        key,
        value,
        None if attn_mask is None else _added(attn_mask, query.dtype),
        num_heads=_heads(query),
        num_key_value_heads=0 if _heads(key) == _heads(query) else _heads(key),  # 0: as many as heads
        scale_value=1 / math.sqrt(_size("width", query, 3)) if scale is None else known("scale", scale),
        pre_tokens=_EVERY,
        next_tokens=0 if is_causal else _EVERY,
        input_layout="BNSD",
    )
    return [result, None]


def _heads(x: Tensor) -> int:
    return _size("number of heads", x, 1)


def _size(what: str, x: Tensor, dim: int) -> int:
    size = (x.symsize or ())[dim]
    if not isinstance(size, int):
        raise NotImplementedError(f"the {what} is known only when the graph runs")
    return size


def _added(mask: Tensor, dtype: Any) -> Tensor:
    """What is added to the scores for a mask: one of booleans hides what is False."""
    if mask.dtype != DataType.DT_BOOL:
        return mask
    return ge.SelectV2(mask, operand(0, dtype), operand(-math.inf, dtype))
