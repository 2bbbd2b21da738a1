# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/attention/multi_head_attention.cc."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
import torch_npu

from tests.python.device.npu_operators import check, check_gradient, check_refused, normal

BATCHES, HEADS, SIZE, SOURCE, TARGET = 2, 3, 4, 5, 6
COLUMNS = HEADS * SIZE
NUMBERS = (HEADS, SIZE, SOURCE, TARGET)


def by_heads(rows: torch.Tensor) -> torch.Tensor:
    return rows.view(BATCHES, -1, HEADS, SIZE).transpose(1, 2)


def as_rows(heads: torch.Tensor) -> torch.Tensor:
    return heads.transpose(1, 2).reshape(-1, COLUMNS)


def arguments(biases: bool = True) -> tuple:
    """Returns the arguments in front of dropout_mask."""
    rows = [normal(BATCHES * n, 8, seed=i) for i, n in enumerate((TARGET, SOURCE, SOURCE))]
    weights = [normal(COLUMNS, 8, seed=3 + i) / 3 for i in range(3)]
    mask, out = normal(BATCHES, HEADS, TARGET, SOURCE, seed=6), normal(10, COLUMNS, seed=7)
    of_biases = [normal(n, seed=8 + i) if biases else None for i, n in enumerate((COLUMNS,) * 3 + (10,))]
    return (*rows, *weights, mask, out, *of_biases)


def kept_of(bits: torch.Tensor) -> torch.Tensor:
    flags = [bits[i // 8].item() >> i % 8 & 1 for i in range(BATCHES * HEADS * TARGET * SOURCE)]
    return torch.tensor(flags).view(BATCHES, HEADS, TARGET, SOURCE)


def multi_head(query, key, value, wq, wk, wv, mask, wo, bq, bk, bv, bo, bits, *rest):
    q, k, v = (by_heads(F.linear(*x)) for x in ((query, wq, bq), (key, wk, bk), (value, wv, bv)))
    weights = (torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(SIZE) + mask).softmax(-1)
    kept = weights if bits is None else weights * kept_of(bits) / (1 - rest[4])
    context = as_rows(torch.einsum("bhij,bhjd->bhid", kept, v))
    if bits is None:
        bits = torch.tensor([255] * 22 + [15] + [0] * 9)  # 180 bits for 180 weights, padded to a multiple of 16 bytes
    return F.linear(context, wo, bo), bits, q, k, v, weights, kept, context


def dropout_bits() -> torch.Tensor:
    return torch.randint(256, (32,), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


@pytest.mark.parametrize("biases", [True, False])
def test_multi_head_attention(biases: bool) -> None:
    op = torch_npu.npu_multi_head_attention
    check(op, (*arguments(biases), None, *NUMBERS, 0.0, True), multi_head, compiled=biases, dynamic=biases)
    with_mask = (*arguments(biases), dropout_bits(), *NUMBERS, 0.4, False)
    check(op, with_mask, multi_head, compiled=False, dynamic=False)


def test_gradients_by_autograd() -> None:
    args = (*arguments(), dropout_bits(), *NUMBERS, 0.4, False)
    check_gradient(torch_npu.npu_multi_head_attention, args, multi_head)


def test_dropout_is_drawn() -> None:
    _, bits, _, _, _, weights, kept, _ = torch_npu.npu_multi_head_attention(*arguments(), None, *NUMBERS, 0.4, True)
    torch.testing.assert_close(kept, weights * kept_of(bits) / 0.6)
    assert 0 < kept_of(bits).sum() < kept.numel()


def test_types_of_weights() -> None:
    args = [x.half() for x in arguments()]
    for wants_float, dtype in ((True, torch.float32), (False, torch.float16)):
        out = torch_npu.npu_multi_head_attention(*args, None, *NUMBERS, 0.0, wants_float)
        assert [x.dtype for x in out] == [torch.float16, torch.uint8, *[torch.float16] * 3, dtype, *[torch.float16] * 2]


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_the_backward_operator_gives_the_reference_gradients(dropout: float) -> None:
    biases = dropout > 0
    args, bits = arguments(biases), dropout_bits()
    _, _, *results = torch_npu.npu_multi_head_attention(*args, bits, *NUMBERS, dropout, True)
    given = normal(BATCHES * TARGET, 10, seed=20)

    def gradients(*called):
        leaves = [None if x is None else x.detach().requires_grad_() for x in called[:7] + called[7:11]]
        query, key, value, wq, wk, wv, wo, *of_biases = leaves
        mask = args[6].double()
        rest = (bits if dropout else None, *NUMBERS, dropout)
        y = multi_head(query, key, value, wq, wk, wv, mask, wo, *of_biases, *rest)[0]
        order = [wq, wk, wv, wo, query, key, value, *of_biases]
        found = iter(torch.autograd.grad(y, [x for x in order if x is not None], called[17]))
        out = [torch.empty(0) if x is None else next(found) for x in order]
        return (*out[:7], *(x[None] if x.numel() else x for x in out[7:]))

    called = (*args[:6], args[7], *args[8:], *results, given, bits, *NUMBERS, dropout, True)
    check(torch_npu.npu_multi_head_attention_backward, called, gradients, compiled=biases, dynamic=biases)


def layernorm_qkv(x, wq, wk, wv, gamma, beta, bq=None, bk=None, bv=None, seq_len=128, num_heads=12, eps=1e-5):
    norm = F.layer_norm(x, (COLUMNS,), gamma, beta, eps)
    heads = [by_heads(norm @ w + (0 if b is None else b)) for w, b in ((wq, bq), (wk, bk), (wv, bv))]
    return [norm, *heads, x.mean(1), x.var(1, correction=0)]


def test_layernorm_qkv() -> None:
    kernels, biases = (
        [normal(COLUMNS, COLUMNS, seed=i) / 3 for i in range(3)],
        [normal(COLUMNS, seed=i) for i in range(3)],
    )
    args = (normal(BATCHES * TARGET, COLUMNS), *kernels, normal(COLUMNS, seed=8), normal(COLUMNS, seed=9))
    sizes = {"seq_len": TARGET, "num_heads": HEADS, "eps": 0.1}
    op = torch_npu.npu_fused_attention_layernorm_qkv_fwd
    check(op, (*args, *biases), layernorm_qkv, **sizes)
    check(op, args, layernorm_qkv, **sizes, compiled=False, dynamic=False)
    check_gradient(op, args, layernorm_qkv, **sizes)


@pytest.mark.parametrize("in_heads", [True, False])
def test_qkv_gradients(in_heads: bool) -> None:
    kernels = [normal(8, COLUMNS, seed=i) for i in range(3)]
    given = [normal(BATCHES * TARGET, COLUMNS, seed=3 + i) for i in range(3)]
    hidden, of_norm = normal(BATCHES * TARGET, 8, seed=6), normal(BATCHES * TARGET, 8, seed=7)

    def gradients(gq, gk, gv, wq, wk, wv, hidden, of_norm):
        grads = [as_rows(g) if g.dim() == 4 else g for g in (gq, gk, gv)]
        leaves = [x.detach().requires_grad_() for x in (hidden, wq, wk, wv)]
        biases = [torch.zeros(COLUMNS, dtype=torch.float64, requires_grad=True) for _ in range(3)]
        outs = [leaves[0] @ w + b for w, b in zip(leaves[1:], biases, strict=True)]
        of_hidden, *others = torch.autograd.grad(outs, [*leaves, *biases], grads)
        return [of_hidden + of_norm, *others]

    grads = [by_heads(g).contiguous() if in_heads else g for g in given]
    check(torch_npu.npu_fused_attention_qkv_grad, (*grads, *kernels, hidden, of_norm), gradients, compiled=in_heads)


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    args, rest = arguments(), (None, *NUMBERS, 0.0, True)
    name = "npu_multi_head_attention"
    check_refused(name, "query has 11 rows, which are no batches of 6", args[0][:11], *args[1:], *rest)
    message = "key_weight has 8 rows, and not those of 3 heads of size 4"
    check_refused(name, message, *args[:4], args[4][:8], *args[5:], *rest)
    check_refused(name, "dropout_prob is 1.5, allowed are 0 to 1", *args, None, *NUMBERS, 1.5, True)
    x, square = normal(12, COLUMNS), normal(COLUMNS, COLUMNS)
    message = r"gamma has shape \[8\], which are not the last dimensions of x"
    check_refused(
        "npu_fused_attention_layernorm_qkv_fwd", message, x, square, square, square, normal(8), normal(8), seq_len=6
    )
