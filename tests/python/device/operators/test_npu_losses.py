# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/training/losses.cc, optimisers.cc and float_status.cc, against those of torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import torch_npu

from tests.python.device.npu_operators import FLOATING, check, check_close, check_gradient, integers, normal

REDUCTIONS = ["none", "mean", "sum"]


def cross_entropy(
    x,
    target,
    weight=None,
    reduction="mean",
    ignore_index=-100,
    label_smoothing=0.0,
    lse_square_scale_for_zloss=0.0,
    return_zloss=False,
):
    common = {"reduction": reduction, "ignore_index": ignore_index, "label_smoothing": label_smoothing}
    loss = F.cross_entropy(x, target, weight, **common).reshape(-1)
    squares = x.logsumexp(1) ** 2 * (target != ignore_index)
    zloss = squares if reduction == "none" else getattr(squares, reduction)(0, keepdim=True)
    zloss = zloss * lse_square_scale_for_zloss
    none = torch.empty(0)
    has_lse = return_zloss or lse_square_scale_for_zloss != 0
    return loss + zloss, x.log_softmax(1), zloss if return_zloss else none, x.logsumexp(1) if has_lse else none


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_loss(reduction: str, weighted: bool) -> None:
    x, target = normal(6, 5), integers(0, 5, 6)
    target[2] = -100
    weight = normal(5, seed=1).abs() if weighted else None
    kwargs = {"weight": weight, "reduction": reduction, "label_smoothing": 0.1}
    check(torch_npu.npu_cross_entropy_loss, (x, target), cross_entropy, **kwargs)
    kwargs |= {"lse_square_scale_for_zloss": 0.2}
    check(torch_npu.npu_cross_entropy_loss, (x, target), cross_entropy, return_zloss=True, **kwargs)
    check_gradient(
        lambda x: torch_npu.npu_cross_entropy_loss(x, target.npu(), **kwargs | {"weight": None})[0],
        (x,),
        lambda x: cross_entropy(x, target, **kwargs | {"weight": None})[0],
    )

    def backward(grad, log_prob, target, **_):
        leaf = x.double().requires_grad_()
        cross_entropy(leaf, target, **kwargs | {"weight": None if weight is None else weight.double()})[0].backward(
            grad
        )
        return leaf.grad

    _, log_prob, _, lse = torch_npu.npu_cross_entropy_loss(x, target, **kwargs)
    grad = normal(6 if reduction == "none" else 1, seed=2)
    run = torch_npu.npu_cross_entropy_loss_backward
    check(run, (grad, log_prob, target), backward, lse_for_zloss=lse, **kwargs)


@pytest.mark.parametrize("dtype", FLOATING)
def test_softmax_cross_entropy_with_logits(dtype: torch.dtype) -> None:
    def reference(x, labels):
        return -(labels * x.log_softmax(-1)).sum(-1)

    args = (normal(4, 6, dtype=dtype), normal(4, 6, seed=1, dtype=dtype).softmax(-1))
    check(torch_npu.npu_softmax_cross_entropy_with_logits, args, reference)

    def backward(grad, x, labels):
        leaf = x.clone().requires_grad_()
        reference(leaf, labels).backward(grad)
        return leaf.grad

    check(torch_npu.npu_softmax_cross_entropy_with_logits_backward, (normal(4, seed=2, dtype=dtype), *args), backward)


def gradient_of(loss, place):
    """Returns a reference for the operators that are named backward: the gradient of one argument of a loss."""

    def call(grad, x, target, *rest, **kwargs):
        args = [x.clone(), target.clone()]
        args[place].requires_grad_()
        loss(*args, *rest, **kwargs).backward(grad)
        return args[place].grad

    return call


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_backward_of_losses(reduction: int) -> None:
    grad = normal(3, 4, seed=9) if reduction == 0 else normal(seed=9)
    name = REDUCTIONS[reduction]
    x, other = normal(3, 4), normal(3, 4, seed=1)

    def bce(x, target, weight, pos_weight, reduction):
        return F.binary_cross_entropy_with_logits(x, target, weight, pos_weight=pos_weight, reduction=name)

    run = torch_npu.npu_binary_cross_entropy_with_logits_backward
    weights = (normal(4, seed=2).abs(), normal(4, seed=3).abs())
    check(run, (grad, x, other.sigmoid(), *weights, reduction), gradient_of(bce, 0))
    check(run, (grad, x, other.sigmoid(), None, None, reduction), gradient_of(bce, 0))
    check(
        torch.ops.npu.l1_loss_backward,
        (grad, x, other, reduction),
        gradient_of(lambda x, y, _: F.l1_loss(x, y, reduction=name), 0),
    )
    for log_target in (False, True):

        def kl(x, y, _, log_target):
            return F.kl_div(x, y, reduction=name, log_target=log_target)

        for place, op in enumerate((torch.ops.npu.kl_div_backward, torch.ops.npu.kl_div_target_backward)):
            target = other if log_target else other.sigmoid()
            check(op, (grad, x, target, reduction), gradient_of(kl, place), log_target=log_target)


def test_cross_entropy_over_a_divided_vocabulary() -> None:
    logits = normal(4, 6)
    shifted = logits - logits.amax(1, True)
    args = (logits.amax(1), shifted.exp().sum(1), shifted[:, 2].contiguous())

    def reference(highest, total, predicted, vocab_parallel_logits=None):
        loss = F.cross_entropy(logits.double(), torch.full((4,), 2), reduction="none")
        return loss, torch.empty(0) if vocab_parallel_logits is None else vocab_parallel_logits.softmax(1)

    run = torch_npu.npu_fused_cross_entropy_loss_with_max_sum
    check(run, args, reference)
    check(run, args, reference, vocab_parallel_logits=logits)


def taken(optimiser, grads, var, **kwargs) -> torch.Tensor:
    """Returns a variable after steps of an optimiser of torch."""
    leaf = var.double().requires_grad_()
    optimiser = optimiser([leaf], **kwargs)
    for grad in grads:
        leaf.grad = grad.double()
        optimiser.step()
    return leaf.detach()


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_apply_adam_w(device: str, amsgrad: bool, maximize: bool) -> None:
    var, grads = normal(3, 4), [normal(3, 4, seed=i) * (4 - i) for i in range(1, 4)]
    out = [var.clone().to(device), torch.zeros(3, 4, device=device), torch.zeros(3, 4, device=device)]
    greatest = torch.zeros(3, 4, device=device)
    for step, grad in enumerate(grads, 1):
        flags = (greatest if amsgrad else None, amsgrad, maximize)
        powers = (0.9**step, 0.95**step, 0.1, 0.01, 0.9, 0.95, 1e-8)
        results = torch.ops.npu.npu_apply_adam_w.out(*powers, grad.to(device), *flags, out=out)
        assert all(a.data_ptr() == b.data_ptr() for a, b in zip(results, out, strict=True))
    kwargs = {"lr": 0.1, "betas": (0.9, 0.95), "weight_decay": 0.01, "amsgrad": amsgrad, "maximize": maximize}
    check_close(out[0].cpu(), taken(torch.optim.AdamW, grads, var, **kwargs))


@pytest.mark.parametrize("use_nesterov", [False, True])
def test_apply_adam(use_nesterov: bool) -> None:
    var, m, v, grad = (normal(3, 4, seed=i) for i in range(4))
    v = v.abs()
    out = [x.npu() for x in (var, m, v)]
    torch.ops.npu.npu_apply_adam.out(0.81, 0.9, 0.1, 0.9, 0.95, 1e-3, grad.npu(), False, use_nesterov, out=out)
    var, m, v, grad = (x.double() for x in (var, m, v, grad))
    m, v = 0.9 * m + 0.1 * grad, 0.95 * v + 0.05 * grad**2
    step = 0.9 * m + 0.1 * grad if use_nesterov else m
    var = var - 0.1 * (1 - 0.9) ** 0.5 / (1 - 0.81) * step / (v.sqrt() + 1e-3)
    check_close([x.cpu() for x in out], [var, m, v])


@pytest.mark.parametrize("norm", [0.5, 4.0])
def test_bert_apply_adam(norm: float) -> None:
    var, m, v, grad = (normal(3, 4, seed=i) for i in range(4))
    out = [x.npu() for x in (var, m, v.abs())]
    torch.ops.npu.npu_bert_apply_adam.out(0.1, 0.9, 0.95, 1e-3, grad.npu(), 1.0, norm, 0.01, out=out)
    var, m, v, grad = (x.double() for x in (var, m, v.abs(), grad / max(norm, 1)))
    m, v = 0.9 * m + 0.1 * grad, 0.95 * v + 0.05 * grad**2
    check_close([x.cpu() for x in out], [var - 0.1 * (m / (v.sqrt() + 1e-3) + 0.01 * var), m, v])


def test_optimisers_need_their_state() -> None:
    with pytest.raises(RuntimeError, match=r"npu_apply_adam: out has 1 tensors, allowed are var, m and v"):
        torch.ops.npu.npu_apply_adam.out(0.9, 0.9, 0.1, 0.9, 0.9, 0.1, normal(2), None, None, out=[normal(2)])


def test_float_status() -> None:
    for op in (torch_npu.npu_alloc_float_status, torch_npu.npu_clear_float_status, torch_npu.npu_get_float_status):
        check(op, (normal(3),), lambda _: torch.zeros(8))
    finite, infinite = normal(3), torch.tensor([1.0, torch.inf])
    for device in ("cpu", "npu"):
        run = torch.ops.npu._amp_foreach_non_finite_check
        assert run([finite.to(device), infinite.to(device)])
        assert not run([finite.to(device)])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: torch_npu.npu_cross_entropy_loss(normal(2, 3), integers(0, 3, 2), reduction="max"),
            r'npu_cross_entropy_loss: reduction is "max", allowed are "none", "mean" and "sum"',
        ),
        (
            lambda: torch_npu.npu_cross_entropy_loss(normal(2, 3), integers(0, 3, 2), label_smoothing=1.5),
            r"npu_cross_entropy_loss: label_smoothing is 1.5",
        ),
        (
            lambda: torch.ops.npu.l1_loss_backward(normal(2), normal(2), normal(2), 3),
            r"l1_loss_backward: reduction is 3, allowed are \[0, 1, 2\]",
        ),
        (
            lambda: torch_npu.npu_fused_cross_entropy_loss_with_max_sum(
                normal(2), normal(2), normal(2), label_smoothing=0.1
            ),
            r"npu_fused_cross_entropy_loss_with_max_sum: label_smoothing is 0.1, allowed is 0",
        ),
    ],
)
def test_unknown_reductions_and_smoothing_are_refused(call, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()
