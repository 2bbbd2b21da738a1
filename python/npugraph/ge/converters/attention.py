# SPDX-License-Identifier: Apache-2.0
"""Converters of attention."""

from __future__ import annotations

import math
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import Late, cast, known, operand, typed
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
    """Tensors are [batch, heads, tokens, width]."""
    if known("dropout_p", dropout_p) != 0:
        raise NotImplementedError(f"its argument dropout_p is {dropout_p!r}")
    if is_causal and attn_mask is not None:
        raise NotImplementedError("it has a mask and is causal")
    factor = 1 / math.sqrt(_size("width", query, 3)) if scale is None else known("scale", scale)
    result = ge.PromptFlashAttention(
        query,
        key,
        value,
        None if attn_mask is None else _added(attn_mask, query.dtype),
        num_heads=_heads(query),
        num_key_value_heads=0 if _heads(key) == _heads(query) else _heads(key),  # 0: as many as heads
        scale_value=factor,
        pre_tokens=_EVERY,
        next_tokens=0 if is_causal else _EVERY,
        input_layout="BNSD",
    )
    return [result, Late(lambda: _log_of_sums(query, key, attn_mask, is_causal, factor), meta_outputs[1].size)]


def _log_of_sums(query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool, factor: float) -> Tensor:
    """The logarithms of the sums by which softmax divides, one for each query, in float32. Gradients need them, and
    Ascend's operator keeps them to itself."""
    f32 = DataType.DT_FLOAT
    if _heads(key) != _heads(query):
        raise NotImplementedError("its result 1 is not computed for fewer heads of keys")
    batch, heads, tokens, _ = query.symsize or ()
    size = [batch, heads, tokens, (key.symsize or ())[2]]
    scores = typed(ge.BatchMatMul(cast(query, f32), cast(key, f32), adj_x2=True), f32, size)
    scores = typed(ge.Mul(scores, operand(factor, f32)), f32, size)
    if mask is not None:
        scores = typed(ge.Add(scores, cast(_added(mask, f32), f32)), f32, size)
    if is_causal:
        visible = ge.Tril(typed(ge.OnesLike(scores), f32, size))
        scores = typed(ge.SelectV2(ge.Equal(visible, operand(1, f32)), scores, operand(-math.inf, f32)), f32, size)
    return typed(ge.ReduceLogSumExp(scores, [3]), f32, size[:3])


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
