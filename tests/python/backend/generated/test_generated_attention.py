# SPDX-License-Identifier: Apache-2.0
"""Attention as generated code: few and many queries, masks, grouped heads, against eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import npugraph
from tests.python.backend.checks import check, compile_ex, strides

GENERATE = {"generate_code": True, "horizontal_fusion": False}  # tasks show one by one


def attentions() -> int:
    return sum(task.kind == "attention" for artifact in npugraph.artifacts() for task in artifact.tasks)


def heads(batch: int, count: int, rows: int, size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Returns heads in the layout that linear layers give: a transposed view of [batch, rows, count * size]."""
    return torch.randn(batch, rows, count * size).to(dtype).view(batch, rows, count, size).transpose(1, 2)


def qkv(queries: int, keys: int, *, count: int = 6, groups: int = 6, **other: Any) -> tuple[torch.Tensor, ...]:
    return (
        heads(2, count, queries, 24, **other),
        heads(2, groups, keys, 24, **other),
        heads(2, groups, keys, 24, **other),
    )


@pytest.mark.parametrize("queries", [1, 3, 40])
@pytest.mark.parametrize("causal", [False, True])
def test_generated_attention_gives_what_eager_gives(queries: int, causal: bool) -> None:
    def fn(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    with torch.no_grad():
        check(fn, lambda: qkv(queries, 50), exact=False, options=GENERATE)
    assert attentions() > 0


@pytest.mark.parametrize("queries", [1, 5, 70])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 6)])
@pytest.mark.parametrize("boolean", [False, True])
def test_masked_attention_gives_what_eager_gives(queries: int, sizes: tuple[int, int], boolean: bool) -> None:
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


def kinds() -> list[str]:
    return [task.kind for task in npugraph.artifacts()[-1].tasks]


def positions(q: torch.Tensor, k: torch.Tensor, first: torch.Tensor | int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the positions of the queries and of the keys, with dimensions that broadcast to those of a mask."""
    return (torch.arange(q.shape[-2]) + first)[None, None, :, None], torch.arange(k.shape[-2])[None, None, None, :]


@pytest.mark.parametrize("queries", [1, 3, 40])
@pytest.mark.parametrize("window", [None, 9])
def test_a_mask_of_positions_is_not_made(queries: int, window: int | None) -> None:
    def fn(q, k, v, filled):
        places, keys = positions(q, k, filled)
        seen = keys <= places
        if window is not None:
            seen = seen & (keys > places - window)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    with torch.no_grad():
        makes = [lambda n=n: (*qkv(queries, 64), torch.tensor(n)) for n in (0, 11, 64 - queries)]
        check(fn, *makes, exact=False, options=GENERATE)
    assert [kind for kind in kinds() if kind == "attention"] == ["attention"]
    assert len(kinds()) <= 2  # the position of a single query is a sum, which is a task


@pytest.mark.parametrize("lowest", [float("-inf"), torch.finfo(torch.float32).min])
def test_a_causal_mask_and_one_that_hides_nothing_go(lowest: float) -> None:
    def fn(q, k, v):
        places, keys = positions(q, k, 0)
        causal = torch.where(keys <= places, 0.0, lowest)
        none = torch.where((places >= 0).expand(2, 1, q.shape[2], k.shape[2]), 0.0, lowest)
        return tuple(F.scaled_dot_product_attention(q, k, v, attn_mask=mask) for mask in (causal, none))

    with torch.no_grad():
        check(fn, lambda: qkv(20, 20), exact=False, options=GENERATE)
    assert kinds() == ["attention", "attention"]


def test_a_growing_cache_with_padding() -> None:
    def fn(q, k, v, padding):
        places, keys = positions(q, k, k.shape[2] - q.shape[2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=(keys <= places) & padding[:, None, None, :])

    def make(queries: int, keys: int):
        padding = torch.ones(2, keys, dtype=torch.bool)
        padding[1, :4] = False
        return (*qkv(queries, keys), padding)

    with torch.no_grad():
        makes = [lambda q=q, k=k: make(q, k) for q, k in ((5, 30), (7, 12), (70, 100))]
        check(fn, *makes, exact=False, dynamic=True, options=GENERATE)
    assert kinds() == ["attention"]


def test_positions_that_are_written_before_they_are_read() -> None:
    def fn(q, k, v, filled):
        places, keys = positions(q, k, filled)
        seen = keys <= places
        filled.add_(7)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    with torch.no_grad():
        check(fn, lambda: (*qkv(4, 30), torch.tensor(3)), exact=False, options=GENERATE)


def written_out(q, k, v, mask=None, scale=0.2, dtype=None):
    scores = torch.matmul(q, k.transpose(-1, -2)) * scale
    if mask is not None:
        scores = scores + mask
    weights = F.dropout(F.softmax(scores, dim=-1, dtype=dtype).to(q.dtype), p=0.1, training=False)
    return torch.matmul(weights, v).transpose(1, 2).contiguous()


@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_that_is_written_out(queries: int, masked: bool, dtype: torch.dtype) -> None:
    def fn(q, k, v, mask):
        return written_out(q, k, v, mask if masked else None, dtype=torch.float32)

    torch.manual_seed(0)
    with torch.no_grad():
        q, k, v = qkv(queries, 50, dtype=dtype)
        mask = torch.randn(2, 1, queries, 50).to(dtype)
        exact, eager = fn(q.double(), k.double(), v.double(), mask.double()), fn(q, k, v, mask)
        got = compile_ex(fn, options=GENERATE)(q, k, v, mask)
    assert attentions() > 0
    assert strides(got) == strides(eager)
    error = (got.double() - exact).abs().max().item()
    assert error <= max(1e-5, 4 * (eager.double() - exact).abs().max().item())


def test_written_out_attention_repeats_no_heads_and_keeps_nans() -> None:
    def fn(q, k, v, mask):
        k, v = (x[:, :, None].expand(1, 2, 3, -1, -1).reshape(1, 6, -1, 24) for x in (k, v))
        return written_out(q, k, v, mask)

    def make():
        mask = torch.zeros(1, 1, 5, 50).masked_fill(torch.rand(1, 1, 5, 50) > 0.5, float("-inf"))
        mask[..., 2, :] = float("-inf")
        return (*(x[:1] for x in qkv(5, 50, groups=2)), mask)

    with torch.no_grad():
        check(fn, make, exact=False, options=GENERATE)
    assert kinds() == ["attention"]


def test_what_is_not_attention_stays() -> None:
    def fn(q, k, v):
        weights = F.softmax(torch.matmul(q, k.transpose(-1, -2)), dim=-1)
        return torch.matmul(weights, v), weights, torch.matmul(F.softmax(torch.matmul(q, q.mT), dim=-2), q)

    with torch.no_grad():
        check(fn, lambda: qkv(8, 50), exact=False, options=GENERATE)
    assert "attention" not in kinds()


@pytest.mark.parametrize("size", [1, 7, 16, 33, 80, 128, 256])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_size_of_heads(size: int, dtype: torch.dtype) -> None:
    def fn(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    torch.manual_seed(0)
    with torch.no_grad():
        compiled = compile_ex(fn, options=GENERATE)
        for queries in (1, 37):
            q, k, v = heads(1, 4, queries, size), heads(1, 2, 70, size), heads(1, 2, 70, size)
            q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
            exact, eager = fn(q.double(), k.double(), v.double()), fn(q, k, v)
            error = (compiled(q, k, v).double() - exact).abs().max().item()
            assert error <= max(1e-5, 4 * (eager.double() - exact).abs().max().item())
    assert attentions() > 0


@pytest.mark.parametrize("mask", [None, torch.bool, torch.float32])
def test_meaning_of_the_operator(mask: torch.dtype | None) -> None:
    """Generated code computes what the operator computes in eager mode."""
    attention = torch.ops.npugraph.attention

    def fn(q, k, v, position, *masks):
        return (
            attention(q, k, v, *masks or [None], position, before=20, after=3),
            attention(q, k, v, *masks, at_end=True, after=0, empty_is_nan=True),
        )

    def make():
        masks = () if mask is None else ((torch.rand(1, 1, 9, 50) > 0.5).to(mask),)
        if mask == torch.float32:
            masks = (masks[0].masked_fill(torch.rand(1, 1, 9, 50) > 0.7, float("-inf")),)
        return (*qkv(9, 50), torch.tensor(30), *masks)

    with torch.no_grad():
        check(fn, make, exact=False, options=GENERATE)
    assert kinds() == ["attention", "attention"]


@pytest.mark.parametrize("first", [2, 4], ids=["some heads first", "no heads first"])
def test_no_heads(first: int) -> None:
    """Neither generated code nor the operator in eager mode divides by the number of heads."""

    def fn(x, y):
        part = x[y.shape[0] :]
        return (part @ part.mT).softmax(-1) @ part

    with torch.no_grad():
        compiled = compile_ex(fn, dynamic=True, options=GENERATE)
        for hidden in (first, 3, 4, 2):
            x, y = torch.randn(4, 5, 6), torch.ones(hidden)
            torch.testing.assert_close(compiled(x, y), fn(x, y))
    assert attentions() > 0
