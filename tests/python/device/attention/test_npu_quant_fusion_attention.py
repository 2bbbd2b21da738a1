# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/attention/quant_fusion_attention.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.attention_reference import attention, by_heads, from_heads
from tests.python.device.npu_operators import check, check_refused, normal

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
HEADS, KEY_HEADS, SIZE, SCALE = 4, 1, 8, 0.3
SIZES = {"query": (HEADS, 5), "key": (KEY_HEADS, 7), "value": (KEY_HEADS, 7), "dy": (HEADS, 5)}  # heads, rows
BLOCK = 2  # rows that share a scale


def stored(name: str, layout: str, dtype: torch.dtype, seed: int) -> torch.Tensor:
    heads, rows = SIZES[name]
    return from_heads(normal(2, heads, rows, SIZE, seed=seed), layout).to(dtype).contiguous()


def scale_of(name: str, seed: int) -> torch.Tensor:
    """Returns one scale for each block of rows."""
    heads, rows = SIZES[name]
    return normal(2, heads, (rows + BLOCK - 1) // BLOCK, 1, seed=seed).abs() + 0.5


def numbers(name: str, values: torch.Tensor, scale: torch.Tensor, layout: str) -> torch.Tensor:
    heads, rows = SIZES[name]
    if scale.numel() > 1:
        scale = torch.stack([scale[:, :, row // BLOCK] for row in range(rows)], 2)
    return by_heads(values.double(), layout, heads) * scale


def forward(query, key, value, layout, scale_q, scale_k, scale_v):
    q = numbers("query", query, scale_q, layout)
    k, v = numbers("key", key, scale_k, layout), numbers("value", value, scale_v, layout)
    return q, k, v, attention(q, k, v, SCALE)


def reference(query, key, value, heads, layout, *, d_scale_q, d_scale_k, d_scale_v, **_):
    *_, (out, top, total) = forward(query, key, value, layout, d_scale_q, d_scale_k, d_scale_v)
    return from_heads(out, layout), top.expand(-1, -1, -1, 8), total.expand(-1, -1, -1, 8), torch.empty(0), 0, 0, 0


def tensors(layout: str, dtype: torch.dtype, names: tuple[str, ...]) -> list[torch.Tensor]:
    return [stored(name, layout, dtype, seed) for seed, name in enumerate(names)]


def scales(blocks: bool, *names: str) -> list[torch.Tensor]:
    return [scale_of(name, 4 + i) if blocks else torch.tensor([0.5 + i]) for i, name in enumerate(names)]


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("layout", ["BSH", "SBH", "BSND", "BNSD"])
def test_quant_fusion_attention(layout: str, blocks: bool) -> None:
    names = ("query", "key", "value")
    given = dict(zip(("d_scale_q", "d_scale_k", "d_scale_v"), scales(blocks, *names), strict=True))
    args = (*tensors(layout, FLOAT8[blocks], names), HEADS, layout)
    how = {"compiled": blocks and layout == "BSH", "dynamic": not blocks and layout == "BSND"}
    check(torch_npu.npu_quant_fusion_attention, args, reference, scale=SCALE, **given, **how)


def test_weights_are_not_rounded() -> None:
    args = (*tensors("BNSD", FLOAT8[0], ("query", "key", "value")), HEADS, "BNSD")
    given = dict(zip(("d_scale_q", "d_scale_k", "d_scale_v"), scales(False, *SIZES)[:3], strict=True))
    run = torch_npu.npu_quant_fusion_attention
    plain = run(*args, **given, query_dtype=FLOAT8[0])
    assert torch.equal(plain[0], run(*args, **given, p_scale=torch.tensor([3.0]))[0])
    assert plain[0].dtype == torch.bfloat16


@pytest.mark.parametrize("saves", [True, False])
@pytest.mark.parametrize("layout", ["BSH", "BNSD"])
def test_the_backward_operator_gives_the_reference_gradients(layout: str, saves: bool) -> None:
    names = ("query", "key", "value", "dy")
    args, given = tensors(layout, FLOAT8[1], names), scales(saves, *names)
    _, _, _, (out, top, total) = forward(*args[:3], layout, *given[:3])

    def gradients(query, key, value, dy, heads, layout, scale_q, scale_k, scale_v, scale_dy, **_):
        *leaves, _ = forward(query, key, value, layout, scale_q, scale_k, scale_v)
        leaves = [x.requires_grad_() for x in leaves]
        result = attention(*leaves, SCALE)[0]
        found = torch.autograd.grad(result, leaves, numbers("dy", dy, scale_dy, layout))
        return *(from_heads(x, layout) for x in found), *(torch.empty(0),) * 4

    saved = {}
    if saves:
        rows = {"softmax_max": top, "softmax_sum": total}
        saved = {name: x.expand(-1, -1, -1, 8).float() for name, x in rows.items()}
        saved["attention_in"] = from_heads(out, layout).float()
    op = torch_npu.npu_quant_fusion_attention_backward
    how = {"compiled": saves and layout == "BSH", "dynamic": not saves and layout == "BNSD"}
    check(op, (*args, HEADS, layout, *given), gradients, scale_value=SCALE, **saved, **how)


def test_wrong_types_scales_and_layouts_are_refused() -> None:
    name = "npu_quant_fusion_attention"
    query, key, value = tensors("BNSD", FLOAT8[0], ("query", "key", "value"))
    one = dict.fromkeys(("d_scale_q", "d_scale_k", "d_scale_v"), torch.ones(1))
    message = "query is of type Float, allowed are Float8_e4m3fn, Float8_e5m2"
    check_refused(name, message, query.float(), key, value, HEADS, "BNSD", **one)
    message = "query_dtype is Float8_e5m2, and query is of type Float8_e4m3fn"
    check_refused(name, message, query, key, value, HEADS, "BNSD", **one, query_dtype=torch.float8_e5m2)
    message = r"the scale of query has shape \[2, 4, 5\], allowed is \(2, 4, blocks of rows, 1\)"
    check_refused(name, message, query, key, value, HEADS, "BNSD", **{**one, "d_scale_q": torch.ones(2, 4, 5)})
    message = "the scale of key has 3 blocks, which are not those of 7 rows by any power of two"
    check_refused(name, message, query, key, value, HEADS, "BNSD", **{**one, "d_scale_k": torch.ones(2, 1, 3, 1)})
    check_refused(name, "input_layout has packed rows", query[0], key[0], value[0], HEADS, "NTD", **one)
    check_refused(name, "head_num is 3, and query has 4 heads", query, key, value, 3, "BNSD", **one)
