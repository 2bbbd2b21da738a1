# SPDX-License-Identifier: Apache-2.0
"""Attention as generated code: few and many queries, masks, grouped heads, against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import npugraph
from tests.python.backend.checks import check, compile_ex, strides

GENERATE = {"generate_code": True}


def attentions() -> int:
    return sum(task.kind == "attention" for artifact in npugraph.artifacts() for task in artifact.tasks)


def heads(batch: int, count: int, rows: int, size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """As linear layers leave them: [batch, rows, count * size] seen by heads."""
    return torch.randn(batch, rows, count * size).to(dtype).view(batch, rows, count, size).transpose(1, 2)


def qkv(queries: int, keys: int, *, count: int = 6, groups: int = 6, **other: Any) -> tuple[torch.Tensor, ...]:
    return (
        heads(2, count, queries, 24, **other),
        heads(2, groups, keys, 24, **other),
        heads(2, groups, keys, 24, **other),
    )


@pytest.mark.parametrize("queries", [1, 3, 40])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(queries: int, causal: bool) -> None:
    def fn(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    with torch.no_grad():
        check(fn, lambda: qkv(queries, 50), exact=False, options=GENERATE)
    assert attentions() > 0


@pytest.mark.parametrize("queries", [1, 5, 70])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 6)])
@pytest.mark.parametrize("boolean", [False, True])
def test_mask(queries: int, sizes: tuple[int, int], boolean: bool) -> None:
    def fn(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)

    def make():
        seen = torch.rand(*sizes, queries, 64) > 0.4
        seen[..., 0, :] = False
        seen[..., 50:] = False
        mask = seen if boolean else torch.randn(seen.shape).masked_fill(~seen, float("-inf"))
        return (*qkv(queries, 64), mask)

    with torch.no_grad():
        check(fn, make, exact=False, options=GENERATE)
    assert attentions() > 0


def test_grouped_heads_are_not_repeated() -> None:
    def fn(q, k, v):
        k, v = (x[:, :, None].expand(-1, -1, 3, -1, -1).reshape(2, 6, -1, 24) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v)

    with torch.no_grad():
        check(fn, lambda: qkv(1, 50, groups=2), exact=False, options=GENERATE)
    assert [task.kind for task in npugraph.artifacts()[-1].tasks] == ["attention"]


def test_sizes_are_known_when_it_runs() -> None:
    def fn(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    with torch.no_grad():
        makes = [lambda n=n: qkv(n, n + 3, count=4, groups=2) for n in (5, 9, 33, 100)]
        check(fn, *makes, exact=False, dynamic=True, options=GENERATE)
    assert attentions() > 0


def test_gradients_take_its_logsumexp() -> None:
    q, k, v = (x.requires_grad_() for x in qkv(20, 20))
    wanted = torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True).square().sum(), (q, k, v))
    fn = compile_ex(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), options=GENERATE)
    torch.testing.assert_close(torch.autograd.grad(fn(q, k, v).square().sum(), (q, k, v)), wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("queries", [1, 64])
@pytest.mark.parametrize("causal", [False, True])
def test_is_as_exact_as_eager(dtype: torch.dtype, queries: int, causal: bool) -> None:
    def fn(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    torch.manual_seed(0)
    with torch.no_grad():
        q, k, v = qkv(queries, 500, dtype=dtype)
        exact, eager = fn(q.double() * 3, k.double(), v.double()), fn(q * 3, k, v)
        got = compile_ex(fn, options=GENERATE)(q * 3, k, v)
    assert attentions() > 0
    assert strides(got) == strides(eager)
    # The tolerance of docs/numerics.md.
    error = {
        name: ((x.double() - exact).abs().max() / exact.abs().max()).item()
        for name, x in (("eager", eager), ("got", got))
    }
    assert error["got"] <= max(1e-5, 4 * error["eager"]), error
