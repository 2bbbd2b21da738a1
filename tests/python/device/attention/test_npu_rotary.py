# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/rotary/rotary.cc, and of atb_serving.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import FLOATING, check, check_gradient, integers, normal


def turned(x, mode):
    """Multiplies by the rotation matrix of the definition, which is filled column by column."""
    n = x.shape[-1]
    matrix = torch.zeros(n, n, dtype=x.dtype)
    for i in range(n):
        if mode == "interleave":
            partner, sign = (i + 1, -1) if i % 2 == 0 else (i - 1, 1)
        else:
            part = n if mode == "half" else n // 2
            inside = i % part
            partner, sign = (i + part // 2, -1) if inside < part // 2 else (i - part // 2, 1)
        matrix[partner, i] = sign
    return x @ matrix


def rotary_mul(x, cos, sin, rotary_mode="half", rotate=None):
    return x * cos + (turned(x, rotary_mode) if rotate is None else x @ rotate) * sin


@pytest.mark.parametrize(("dtype", "mode"), [*((dtype, "half") for dtype in FLOATING), (torch.float32, "interleave")])
def test_rotary_mul(dtype: torch.dtype, mode: str) -> None:
    x, cos, sin = (normal(*n, dtype=dtype, seed=i) for i, n in enumerate([(2, 3, 4, 8), (2, 3, 1, 8), (1, 3, 1, 8)]))
    check(torch_npu.npu_rotary_mul, (x, cos, sin, mode), rotary_mul)
    args = (normal(2, 3, 4, 8, dtype=dtype, seed=3), x, cos, sin, mode)

    def backward(dy, x, cos, sin, mode):
        leaves = [t.clone().requires_grad_() for t in (x, cos, sin)]
        return torch.autograd.grad(rotary_mul(*leaves, mode), leaves, dy)

    check(torch_npu.npu_rotary_mul_backward, args, backward)


def test_rotary_mul_by_a_matrix() -> None:
    x, cos, sin, matrix = normal(2, 8), normal(2, 8, seed=1), normal(2, 8, seed=2), normal(8, 8, seed=3)
    check(torch_npu.npu_rotary_mul, (x, cos, sin, "half", matrix), rotary_mul)


def test_gradients_are_those_of_the_reference() -> None:
    args = (normal(2, 3, 4, 8), normal(2, 3, 1, 8, seed=1), normal(1, 3, 1, 8, seed=2))
    check_gradient(torch_npu.npu_rotary_mul, args, rotary_mul)
    check_gradient(torch_npu.npu_rotary_mul, (*args, "interleave"), rotary_mul)


@pytest.mark.parametrize(
    ("dtype", "mode"),
    [(torch.float32, "half"), (torch.bfloat16, "half"), (torch.float32, "interleave"), (torch.float32, "quarter")],
)
def test_apply_rotary_pos_emb_writes_its_arguments_too(dtype: torch.dtype, mode: str) -> None:
    def reference(q, k, cos, sin, layout, mode):
        for x in (q, k):
            x.copy_(rotary_mul(x, cos, sin, mode))
        return q.clone(), k.clone()

    sizes = [(2, 3, 4, 8), (2, 3, 1, 8), (2, 3, 1, 8), (2, 3, 1, 8)]
    args = [normal(*n, dtype=dtype, seed=i) for i, n in enumerate(sizes)]
    check(torch_npu.npu_apply_rotary_pos_emb, (*args, "BSND", mode), reference)
    if mode == "half":
        check(torch_npu.npu_apply_rotary_pos_emb, (*(x[0] for x in args), "TND", mode), reference)


def test_interleave_rope() -> None:
    def reference(x, cos, sin):
        return rotary_mul(torch.cat([x[..., ::2], x[..., 1::2]], -1), cos, sin)

    args = (normal(2, 3, 4, 8), normal(2, 1, 4, 8, seed=1), normal(2, 1, 4, 8, seed=2))
    check(torch_npu.npu_interleave_rope, args, reference)


def rotate_heads(x, head_size, angles, neox):
    """Rotates pairs of elements as complex numbers. ``angles``: [tokens, 2, pairs]."""
    out = x.clone().view(*x.shape[:-1], -1, head_size)
    cos, sin = (angles[..., i, :].unsqueeze(-2) for i in (0, 1))
    pairs = cos.shape[-1]
    first, second = (
        (slice(0, pairs), slice(pairs, 2 * pairs)) if neox else (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    )
    a, b = out[..., first].clone(), out[..., second].clone()
    out[..., first], out[..., second] = a * cos - b * sin, b * cos + a * sin
    return out.view_as(x)


def mrope(positions, q, k, cache, head_size, *, mrope_section=None, rotary_mode="half", cache_mode="default"):
    table = cache.view(cache.shape[0], 2, -1)
    if positions.ndim == 1:
        angles = table[positions]
    else:
        angles = table[positions[0]].clone()
        rows = [row for row, size in enumerate(mrope_section) for _ in range(size)]
        for place in range(angles.shape[-1]):
            row = rows[place]
            if cache_mode == "interleave":
                row = place % 3 if place < 3 * mrope_section[place % 3] else 0
            angles[..., place] = table[positions[row]][..., place]
    return tuple(rotate_heads(x, head_size, angles, rotary_mode == "half") for x in (q, k))


@pytest.mark.parametrize("mode", ["half", "interleave"])
@pytest.mark.parametrize("rotary_size", [8, 4])
def test_mrope_rotates_queries_and_keys_as_the_reference(mode: str, rotary_size: int) -> None:
    q, k, cache = normal(5, 24), normal(5, 16, seed=1), normal(10, rotary_size, seed=2)
    check(torch_npu.npu_mrope, (integers(0, 10, 5), q, k, cache, 8), mrope, rotary_mode=mode)
    check(
        torch_npu.npu_mrope,
        (integers(0, 10, 5), q, k, cache, 8),
        mrope,
        mrope_section=[0, 0, 0],
        rotary_mode=mode,
        dynamic=False,
    )


@pytest.mark.parametrize("mode", ["half", "interleave"])
@pytest.mark.parametrize(
    ("section", "cache_mode"), [([3, 2, 3], "default"), ([4, 2, 2], "interleave"), ([2, 2, 2, 2], "default")]
)
def test_mrope_of_several_rows_of_positions(mode: str, section: list[int], cache_mode: str) -> None:
    positions = integers(0, 10, len(section), 5, dtype=torch.int32)
    args = (positions, normal(5, 32, dtype=torch.bfloat16), normal(5, 16, dtype=torch.bfloat16), normal(10, 16), 16)
    check(
        torch_npu.npu_mrope, args, mrope, mrope_section=section, rotary_mode=mode, cache_mode=cache_mode, dynamic=False
    )


@pytest.mark.parametrize("neox", [True, False])
def test_rotary_embedding_in_place(neox: bool) -> None:
    def reference(positions, q, k, head_size, cache, neox):
        mode = "half" if neox else "interleave"
        for x, y in zip((q, k), mrope(positions, q, k, cache, head_size, rotary_mode=mode), strict=True):
            x.copy_(y)

    args = (integers(0, 10, 5), normal(5, 24), normal(5, 16, seed=1), 8, normal(10, 4, seed=2), neox)
    check(torch_npu._npu_rotary_embedding, args, reference)


def test_matmul_add() -> None:
    args = (normal(6, 3, dtype=torch.float16), normal(6, 4, dtype=torch.float16, seed=1), normal(3, 4, seed=2))

    def reference(x, weight, into):
        into += x.T @ weight

    check(torch_npu._npu_matmul_add_fp32, args, reference, whole=True)


def test_group_topk() -> None:
    def reference(scores, k, groups, n):
        for row in scores.view(scores.shape[0], groups, -1):
            sums = [sum(sorted(group.tolist())[-n:]) for group in row]
            for group in sorted(range(groups), key=sums.__getitem__)[:-k]:
                row[group] = 0

    check(torch_npu._npu_group_topk, (normal(5, 12).sigmoid(), 2, 4, 2), reference)


def test_quantised_in_place() -> None:
    def quantise(x, scale, offset, into):
        into.copy_((x / scale + offset).round().clamp(-128, 127))

    def rms_norm_quant(x, gamma, beta, scale, offset, into):
        quantise(x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * gamma + beta, scale, offset, into)

    x, scale, offset = normal(3, 8), torch.tensor([0.02]), torch.tensor([3], dtype=torch.int8)
    into = torch.zeros(3, 8, dtype=torch.int8)
    check(torch_npu._npu_quantize_per_tensor, (x, scale, offset, into), quantise, whole=True)
    args = (x, normal(8, seed=1), normal(8, seed=2), scale, offset, into)
    check(torch_npu._npu_quant_rms_norm, args, rms_norm_quant, whole=True)


X, POSITIONS = normal(2, 8), torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "message"),
    [
        ("npu_rotary_mul", (X, X, X, "quarter"), {}, "rotary_mode is 'quarter', allowed are 'half' and 'interleave'"),
        (
            "npu_apply_rotary_pos_emb",
            (X, X, X, X, "BSH"),
            {},
            "layout is 'BSH', allowed are 'BSND', 'SBND', 'BNSD' and",
        ),
        ("npu_apply_rotary_pos_emb", (X, X, X, X, "TND"), {}, "query has 2 dimensions, allowed are 3 to 3"),
        ("npu_mrope", (POSITIONS[None], X, X, X, 8), {}, "positions has 1 rows, and mrope_section 0 entries"),
        ("npu_mrope", (POSITIONS, X, X, X, 8), {"cache_mode": "x"}, "cache_mode is 'x', allowed are 'default' and"),
        ("_npu_group_topk", (X, 1, 3, 1), {}, "self has 8 columns, which are not group_num = 3 groups"),
        ("_npu_group_topk", (X, 3, 2, 1), {}, "k is 3, allowed are 0 to group_num = 2"),
        ("_npu_matmul_add_fp32", (X, X, X.half()), {}, "_npu_matmul_add_fp32: C is of type Half, allowed are Float"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(name: str, args: tuple, kwargs: dict, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        getattr(torch_npu, name)(*args, **kwargs)
