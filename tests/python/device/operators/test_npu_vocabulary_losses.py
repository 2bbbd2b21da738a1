# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/training/vocabulary_losses.cc."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import torch_npu

from tests.python.device.npu_operators import FLOATING, check, check_close, check_gradient, check_refused, normal

VOCABULARY, PART = 12, 5  # the second part has the entries from 5 up to 10
TARGET = torch.tensor([5, 0, 9, 10, 7, 11, 6, 4, 8, 5])


def bits(flags: torch.Tensor) -> torch.Tensor:
    out = torch.zeros((len(flags) + 7) // 8, dtype=torch.uint8)
    for place, flag in enumerate(flags.tolist()):
        out[place // 8] += flag << place % 8
    return out


def online_max_sum(input, weight, target, start, end, return_logits=False):
    logits = torch.einsum("ij,vj->iv", input, weight)
    top = logits.amax(1)
    here = (target >= start) & (target < start + PART)
    predicted = [logits[i, t - start] - top[i] if here[i] else top[i] * 0 for i, t in enumerate(target.tolist())]
    column = torch.where(here, target - start, 0)
    logits_or_none = logits if return_logits else torch.empty(0)
    total = (logits - top[:, None]).exp().sum(1)
    return top, total, torch.stack(predicted), bits(~here), column, logits_or_none


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("end", [9, 10])  # the last entry, or the one after it
def test_online_max_sum(dtype: torch.dtype, end: int) -> None:
    args = (normal(10, 8, dtype=dtype), normal(PART, 8, dtype=dtype, seed=1), TARGET, 5, end)
    once = dtype == torch.float32 and end == 10
    check(torch_npu.npu_fused_linear_online_max_sum, args, online_max_sum, compiled=once, dynamic=once)
    check(
        torch_npu.npu_fused_linear_online_max_sum,
        args,
        online_max_sum,
        return_logits=True,
        compiled=False,
        dynamic=False,
    )
    narrow = (*args[:2], TARGET.int(), 5, end)
    assert torch_npu.npu_fused_linear_online_max_sum(*narrow)[4].dtype == torch.int32


def whole_loss(input: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(input @ weight.T, TARGET, reduction="none")


@pytest.mark.parametrize("with_softmax", [False, True])
def test_a_loss_over_parts_of_the_vocabulary(with_softmax: bool) -> None:
    """Computes the loss as processes do that have a part of the vocabulary each: maxima, sums and logits of the parts
    are reduced."""
    input, weight, grad = normal(10, 8), normal(VOCABULARY, 8, seed=1), normal(10, seed=2)
    starts = (0, 5, 10)
    pieces = [weight[start : start + PART] for start in starts]
    parts = [
        torch_npu.npu_fused_linear_online_max_sum(input, piece, TARGET, start, start + len(piece), True)
        for start, piece in zip(starts, pieces, strict=True)
    ]
    top = torch.stack([part[0] for part in parts]).amax(0)
    total = sum(part[1] * (part[0] - top).exp() for part in parts)
    elsewhere = [torch.tensor([part[3][i // 8].item() >> i % 8 & 1 for i in range(10)]).bool() for part in parts]
    predicted = sum((p[2] + p[0] - top).masked_fill(away, 0) for p, away in zip(parts, elsewhere, strict=True))
    leaves = [x.double().requires_grad_() for x in (input, weight)]
    want = whole_loss(*leaves)
    want_input, want_weight = torch.autograd.grad(want, leaves, grad.double())
    results = []
    for part, piece in zip(parts, pieces, strict=True):
        loss, softmax = torch_npu.npu_fused_cross_entropy_loss_with_max_sum(
            top, total, predicted, vocab_parallel_logits=part[5]
        )
        check_close(loss, want)
        given = {"softmax": softmax} if with_softmax else {"logits_max": top, "sum_exp_logits": total}
        backward = torch_npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward
        results.append(backward(grad, input, piece, part[3], part[4], **given))
    check_close((sum(r[0] for r in results), torch.cat([r[1] for r in results])), (want_input, want_weight))


@pytest.mark.parametrize("dtype", FLOATING)
def test_gradients_of_the_loss(dtype: torch.dtype) -> None:
    input, weight = normal(10, 8, dtype=dtype), normal(PART, 8, dtype=dtype, seed=1)
    here = (TARGET >= 5) & (TARGET < 10)
    args = (normal(10), input, weight, bits(~here), torch.where(here, TARGET - 5, 0))

    def gradients(grad, input, weight, *_, **__):
        leaves = [input.detach().requires_grad_(), weight.detach().requires_grad_()]
        logits = leaves[0] @ leaves[1].T
        own = torch.stack([logits[i, args[4][i]] * here[i] for i in range(10)])
        return torch.autograd.grad(logits.logsumexp(1) - own, leaves, grad)

    logits = input.float() @ weight.float().T
    saved = {"logits_max": logits.amax(1), "sum_exp_logits": (logits - logits.amax(1, True)).exp().sum(1)}
    backward = torch_npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward
    compiled = dtype == torch.float32
    check(backward, args, gradients, softmax=logits.softmax(1), compiled=False, dynamic=False)
    check(backward, args, gradients, **saved, compiled=compiled, dynamic=compiled)


def test_the_forward_operator_has_gradients() -> None:
    args = (normal(10, 8), normal(PART, 8, seed=1), TARGET, 5, 10)
    check_gradient(torch_npu.npu_fused_linear_online_max_sum, args, online_max_sum)


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    input, weight = normal(10, 8), normal(PART, 8)
    name = "npu_fused_linear_online_max_sum"
    check_refused(name, "input has 8 columns, and weight has 5", input, weight.T, TARGET, 0, 5)
    check_refused(name, "vocab_start_index is 3 and vocab_end_index 2", input, weight, TARGET, 3, 2)
    name = "npu_fused_linear_cross_entropy_loss_with_max_sum_backward"
    args = (normal(10), input, weight, torch.zeros(2, dtype=torch.uint8), TARGET % PART)
    check_refused(name, "softmax is needed, or logits_max and sum_exp_logits", *args)
    check_refused(name, "label_smoothing is 0.1, allowed is 0", *args, 0.1)
