# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/attention/attention_softmax.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.attention_reference import attention
from tests.python.device.npu_operators import FLOATING, check, check_close, check_gradient, check_refused, normal

SIZE = (2, 3, 5, 5)


def masked_softmax(x, mask, scale=1, fixed_triu_mask=False):
    dropped = torch.ones(5, 5).triu(1).bool() if fixed_triu_mask else mask.bool()
    return torch.softmax(torch.where(dropped, -10000.0, x * scale), -1)


@pytest.mark.parametrize("dtype", FLOATING)
def test_scaled_masked_softmax(dtype: torch.dtype) -> None:
    args = (normal(*SIZE, dtype=dtype), normal(2, 1, 5, 5) > 0.5, 0.7)
    check(torch_npu.npu_scaled_masked_softmax, args, masked_softmax, compiled=dtype == torch.float32)
    check(torch_npu.npu_scaled_masked_softmax, (*args, True), masked_softmax, compiled=False)


@pytest.mark.parametrize("fixed", [False, True])
def test_scaled_masked_softmax_backward(fixed: bool) -> None:
    x, mask = normal(*SIZE), normal(2, 1, 5, 5) > 0.5
    check_gradient(torch_npu.npu_scaled_masked_softmax, (x, mask, 0.7, fixed), masked_softmax)

    def backward(y_grad, y, mask, scale, fixed):
        leaf = x.double().requires_grad_()
        return torch.autograd.grad(masked_softmax(leaf, mask, scale, fixed), leaf, y_grad)[0]

    args = (normal(*SIZE, seed=1), masked_softmax(x, mask, 0.7, fixed), mask, 0.7, fixed)
    check(torch_npu.npu_scaled_masked_softmax_backward, args, backward, compiled=False)


def test_softmax_with_bias_of_windows() -> None:
    x, mask, bias = normal(3, 2, 4, 5, 6), normal(2, 5, 6, seed=1), normal(4, 5, 6, seed=2)

    def reference(x, mask, bias, scale_value=1.0):
        scores = x.view(-1, 2, 4, 5, 6) * scale_value + bias
        scores = scores if mask is None else scores + mask[:, None]
        return torch.softmax(scores, -1).view_as(x)

    op = torch_npu.npu_masked_softmax_with_rel_pos_bias
    check(op, (x, mask, bias), reference, compiled=False, scale_value=0.5)
    check(op, (x.flatten(0, 1), mask, bias), reference, compiled=False)
    check(op, (x, None, bias), reference, compiled=False)


def test_softmax_in_place() -> None:
    def forward(x):
        return x.copy_(torch.softmax(x, -1))

    def backward(x, grad_output, values):
        of_weights = grad_output @ values.mT
        return x.copy_(x * (of_weights - (of_weights * x).sum(-1, keepdim=True)))

    check(torch_npu.npu_attn_softmax_, (normal(*SIZE),), forward)
    args = (torch.softmax(normal(*SIZE), -1), normal(2, 3, 5, 8, seed=1), normal(2, 3, 5, 8, seed=2))
    check(torch_npu.npu_attn_softmax_backward_, args, backward, compiled=False)


def fused(query, key, value, mask, scale, keep_prob, *_):
    return attention(query, key, value, scale, bias=mask)[0].transpose(1, 2).reshape(10, 24)


def test_fused_attention_score() -> None:
    args = (*(normal(2, 3, 5, 8, seed=seed) for seed in range(3)), normal(2, 1, 5, 5, seed=3), 0.3, 1.0)
    check(torch_npu.npu_fused_attention_score, args, fused)
    check_gradient(torch_npu.npu_fused_attention_score, args, fused)
    turned = (args[0], args[1].mT.contiguous(), *args[2:], False, True)
    check_close(torch_npu.npu_fused_attention_score(*turned), fused(*(x.double() for x in args[:4]), 0.3, 1))


def test_gradients_of_fused_attention_score() -> None:
    args = [normal(2, 3, 5, 8, seed=seed).requires_grad_() for seed in range(3)]
    mask, dy = normal(2, 1, 5, 5, seed=3), normal(10, 24, seed=4)
    torch.manual_seed(1)
    out, weights, bits = torch_npu.npu_fused_attention_score_fwd(*args, mask, 0.3, 0.6)
    want = torch.autograd.grad(out, args, dy)
    for op in (torch_npu.npu_fused_attention_score_grad, torch_npu.npu_fused_attention_score_backward):
        got = op(dy, weights.detach(), *(x.detach() for x in args), bits, 0.3, 0.6)
        check_close(got, want)


def parts(seed: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns result, maxima and sums of attention to seven keys."""
    query = normal(2, 3, 5, 8)
    out = attention(query.double(), *(normal(2, 3, 7, 8, seed=seed + i).double() for i in range(2)), 0.3)
    return out[0].to(dtype), out[1].float(), out[2].float()


def merged() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    keys, values = (torch.cat([normal(2, 3, 7, 8, seed=seed + i) for seed in (3, 6)], 2).double() for i in range(2))
    return attention(normal(2, 3, 5, 8).double(), keys, values, 0.3)


@pytest.mark.parametrize("update_type", [0, 1])
def test_attention_update(update_type: int) -> None:
    given = [parts(3), parts(6)]
    empty = torch.zeros(30, 8), torch.full((30,), float("-inf"))  # attention to no keys
    out = [x[0].flatten(0, 2) for x in given] + [empty[0]]
    lse = [(x[1] + x[2].log()).flatten() for x in given] + [empty[1]]
    want = merged()

    def reference(*_):
        all_lse = (want[1] + want[2].log()).flatten()
        return want[0].flatten(0, 2), all_lse if update_type else torch.empty(0)

    check(torch_npu.npu_attention_update, (lse, out, update_type), reference, compiled=update_type == 1)


@pytest.mark.parametrize("layout", ["SBH", "TND"])
def test_ring_attention_update(layout: str) -> None:
    def arranged(out, maxima, sums):
        if layout == "SBH":
            return out.permute(2, 0, 1, 3).flatten(2), *(x.expand(-1, -1, -1, 8) for x in (maxima, sums))
        rows = out.transpose(1, 2).flatten(0, 1)
        return rows, *(x.transpose(1, 2).flatten(0, 1).expand(-1, -1, 8) for x in (maxima, sums))

    args = [x.contiguous() for seed in (3, 6) for x in arranged(*parts(seed))]
    op = torch_npu.npu_ring_attention_update
    check(op, args, lambda *_, **__: arranged(*merged()), compiled=layout == "SBH", input_layout=layout)

    none = [torch.zeros_like(args[0]), torch.full_like(args[1], float("-inf")), torch.zeros_like(args[2])]
    check(op, none + none, lambda *_, **__: none, input_layout=layout)  # no row sees a key


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    x = normal(*SIZE)
    check_refused("npu_scaled_masked_softmax", "x has 3 dimensions, allowed are 4 to 4", x[0], x)
    check_refused("npu_attention_update", "lse has 2 tensors and local_out 1", [x, x], [x], 0)
    check_refused("npu_attention_update", "update_type is 2, allowed are 0 and 1", [x], [x], 2)
    check_refused(
        "npu_ring_attention_update", 'input_layout is "BSH", allowed are', x, x, x, x, x, x, input_layout="BSH"
    )
