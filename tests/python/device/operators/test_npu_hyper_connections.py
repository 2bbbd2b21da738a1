# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/layers/hyper_connections.cc."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import FLOATING, check, check_gradient, check_refused, normal

STREAMS, SIZE = 3, 8
COUNT = STREAMS * (STREAMS + 2)


def gradients_of(function: Callable, results: slice = slice(None)) -> Callable:
    """Returns a function of gradients of results and of arguments that gives gradients of arguments. It gives None for
    an argument that is None."""

    def gradients(grads, *args, **kwargs):
        leaves = [x.detach().requires_grad_() for x in args if x is not None]
        rest = iter(leaves)
        out = function(*(None if x is None else next(rest) for x in args), **kwargs)
        out = out[results] if isinstance(out, tuple) else (out,)
        found = iter(torch.autograd.grad(out, leaves, grads))
        return tuple(None if x is None else next(found) for x in args)

    return gradients


def mhc_pre(x, phi, alpha, bias, gamma=None, *, norm_eps=1e-6, hc_eps=1e-6, out_flag=0):
    row = x.flatten(-2)
    rstd = 1 / (row.pow(2).mean(-1, keepdim=True) + norm_eps).sqrt()
    mix = torch.einsum("...i,ci->...c", row if gamma is None else row * gamma.flatten(), phi)
    normed = mix * rstd
    n = STREAMS
    pre = torch.sigmoid(normed[..., :n] * alpha[0] + bias[:n]) + hc_eps
    post = 2 * torch.sigmoid(normed[..., n : 2 * n] * alpha[1] + bias[n : 2 * n])
    between = (normed[..., 2 * n :] * alpha[2] + bias[2 * n :]).unflatten(-1, (n, n))
    saved = (rstd[..., 0], mix, pre) if out_flag else (torch.empty(0),) * 3
    return torch.einsum("...n,...nc->...c", pre, x), post, between, *saved


def pre_arguments(dtype: torch.dtype = torch.float32, sizes: tuple[int, ...] = (2, 5)) -> tuple[torch.Tensor, ...]:
    phi = normal(COUNT, STREAMS * SIZE, seed=1) / 4
    return normal(*sizes, STREAMS, SIZE, dtype=dtype), phi, normal(3, seed=2), normal(COUNT, seed=3)


@pytest.mark.parametrize("dtype", FLOATING)
def test_mhc_pre_is_that_of_the_reference(dtype: torch.dtype) -> None:
    compiled = dtype == torch.float32
    args, gamma = pre_arguments(dtype), normal(STREAMS, SIZE, seed=4)
    check(torch_npu.npu_mhc_pre, args, mhc_pre, compiled=False, dynamic=False)
    check(
        torch_npu.npu_mhc_pre,
        args,
        mhc_pre,
        gamma=gamma,
        out_flag=1,
        hc_eps=0.1,
        norm_eps=0.01,
        compiled=compiled,
        dynamic=compiled,
    )
    check(
        torch_npu.npu_mhc_pre, pre_arguments(dtype, (4,)), mhc_pre, gamma=gamma.flatten(), compiled=False, dynamic=False
    )


@pytest.mark.parametrize("with_gamma", [False, True])
def test_gradients_of_pre(with_gamma: bool) -> None:
    args = pre_arguments(torch.float32 if with_gamma else torch.bfloat16)
    gamma, later = normal(STREAMS, SIZE, seed=4) if with_gamma else None, normal(*args[0].shape, seed=8)
    _, post, _, *saved = torch_npu.npu_mhc_pre(*args, gamma=gamma, out_flag=1, hc_eps=0.1)
    grads = [normal(2, 5, *last, seed=5) for last in ((SIZE,), (STREAMS,), (STREAMS, STREAMS))]

    def gradients(x, phi, alpha, *given, gamma=None, hc_eps=0.1, grad_x_post=0):
        of = gradients_of(mhc_pre, slice(3))
        of_x, *others = of(given[:3], x, phi, alpha, args[3].double(), gamma, hc_eps=hc_eps)
        return of_x + grad_x_post, *others

    backward, given = torch_npu.npu_mhc_pre_backward, (*args[:3], *grads, *saved, post)
    check(backward, given, gradients, gamma=gamma, hc_eps=0.1, compiled=False, dynamic=False)
    check(
        backward, given, gradients, gamma=gamma, hc_eps=0.1, grad_x_post=later, compiled=with_gamma, dynamic=with_gamma
    )


def test_autograd_of_pre() -> None:
    check_gradient(torch_npu.npu_mhc_pre, pre_arguments(), mhc_pre, gamma=normal(STREAMS, SIZE, seed=4))


def mhc_post(x, h_res, h_out, h_post):
    streams = []
    for n in range(STREAMS):
        own = x[..., n, :] if h_res is None else sum(h_res[..., m, n, None] * x[..., m, :] for m in range(STREAMS))
        streams.append(own + h_post[..., n, None] * h_out)
    return torch.stack(streams, -2)


def post_arguments(dtype: torch.dtype = torch.float32, mixes: bool = True) -> tuple:
    h_res = normal(2, 5, STREAMS, STREAMS, seed=1) if mixes else None
    x, h_out = normal(2, 5, STREAMS, SIZE, dtype=dtype), normal(2, 5, SIZE, dtype=dtype, seed=2)
    return x, h_res, h_out, normal(2, 5, STREAMS, seed=3)


@pytest.mark.parametrize("mixes", [True, False])
@pytest.mark.parametrize("dtype", FLOATING)
def test_mhc_post_and_its_gradient_match_the_reference(dtype: torch.dtype, mixes: bool) -> None:
    args, compiled = post_arguments(dtype, mixes), dtype == torch.float32
    check(torch_npu.npu_mhc_post, args, mhc_post, compiled=compiled, dynamic=compiled)
    given = normal(2, 5, STREAMS, SIZE, dtype=dtype, seed=7)
    gradients = gradients_of(mhc_post)
    check(
        torch_npu.npu_mhc_post_backward,
        (given, *args),
        lambda g, *x: gradients([g], *x),
        compiled=compiled,
        dynamic=compiled,
    )


def test_autograd_of_post() -> None:
    check_gradient(torch_npu.npu_mhc_post, post_arguments(), mhc_post)


def sinkhorn(x, *, eps=1e-6, num_iters=20, out_flag=0):
    matrix = x.softmax(-1)
    norms, sums = [matrix], [(x - x.amax(-1, keepdim=True)).exp().sum(-1)]
    matrix = matrix + eps
    for step in range(1, 2 * num_iters):
        total = matrix.sum(-2 if step % 2 else -1, keepdim=True) + eps
        matrix = matrix / total
        norms.append(matrix)
        sums.append(total.squeeze(-2 if step % 2 else -1))
    return matrix, *(torch.stack(x) if out_flag else torch.empty(0) for x in (norms, sums))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sinkhorn_iterations_are_those_of_the_reference(dtype: torch.dtype) -> None:
    x, compiled = normal(2, 4, 4, dtype=dtype), dtype == torch.float32
    check(torch_npu.npu_mhc_sinkhorn, (x,), sinkhorn, compiled=False)
    check(torch_npu.npu_mhc_sinkhorn, (x,), sinkhorn, eps=0.01, num_iters=2, out_flag=1, compiled=compiled)
    check(torch_npu.npu_mhc_sinkhorn, (x,), sinkhorn, num_iters=1, compiled=False)


def test_results_of_sinkhorn_are_doubly_stochastic() -> None:
    matrix = torch_npu.npu_mhc_sinkhorn(normal(5, 4, 4), num_iters=50)[0]
    for dim in (-1, -2):
        torch.testing.assert_close(matrix.sum(dim), torch.ones(5, 4), rtol=0, atol=1e-4)


def test_gradients_of_sinkhorn() -> None:
    x, given = normal(2, 3, 4, 4), normal(2, 3, 4, 4, seed=1)
    _, *saved = torch_npu.npu_mhc_sinkhorn(x, num_iters=3, eps=0.01, out_flag=1)

    def gradients(grad, *_):
        leaf = x.double().requires_grad_()
        return torch.autograd.grad(sinkhorn(leaf, num_iters=3, eps=0.01)[0], leaf, grad)[0]

    check(torch_npu.npu_mhc_sinkhorn_backward, (given, *saved), gradients)
    check_gradient(torch_npu.npu_mhc_sinkhorn, (x,), sinkhorn, num_iters=3)


def test_a_whole_connection_keeps_what_goes_through_it() -> None:
    """As h_res is doubly stochastic, the sum of all streams is their sum before, plus the part that the layer adds."""
    x, *given = pre_arguments()
    h_in, h_post, h_res, *_ = torch_npu.npu_mhc_pre(x, *given)
    y = torch_npu.npu_mhc_post(x, torch_npu.npu_mhc_sinkhorn(h_res, num_iters=50)[0], h_in, h_post)
    want = x.sum(-2) + h_post.sum(-1, keepdim=True) * h_in
    torch.testing.assert_close(y.sum(-2), want, rtol=1e-3, atol=1e-3)


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    x, phi, alpha, bias = pre_arguments()
    message = r"phi has shape \[24, 15\], allowed is \(15, 24\) for 3 streams of size 8"
    check_refused("npu_mhc_pre", message, x, phi.T.contiguous(), alpha, bias)
    check_refused("npu_mhc_pre", r"alpha has shape \[2\], allowed is \(3\)", x, phi, alpha[:2], bias)
    check_refused("npu_mhc_pre", r"bias has shape \[9\], allowed is \(15\)", x, phi, alpha, bias[:9])
    check_refused("npu_mhc_pre", "out_flag is 2, allowed are", x, phi, alpha, bias, out_flag=2)
    x, h_res, h_out, h_post = post_arguments()
    message = r"h_res has shape \[2, 5, 3, 2\], allowed is a matrix of \(3, 3\) for each token"
    check_refused("npu_mhc_post", message, x, h_res[..., :2], h_out, h_post)
    check_refused("npu_mhc_post", "h_out has shape .* one stream of x", x, h_res, h_out[..., :2], h_post)
    check_refused("npu_mhc_post", "h_post has shape .* x without its last dimension", x, h_res, h_out, h_post[..., :2])
    check_refused("npu_mhc_sinkhorn", "num_iters is 0, allowed are 1 and more", h_res, num_iters=0)
    message = r"grad_y, norm and sum have shapes \[2, 5, 3, 3\], \[2, 5, 3, 3\] and"
    check_refused("npu_mhc_sinkhorn_backward", message, h_res, h_res, h_res)
