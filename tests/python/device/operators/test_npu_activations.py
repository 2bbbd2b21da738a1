# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/layers/activations.cc."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu
from torch.nn import functional

from tests.python.device.npu_operators import FLOATING, check, check_gradient, normal


def silu(x):
    return x / (1 + torch.exp(-x))


def swiglu(x, dim=-1):
    first, second = x.chunk(2, dim)
    return silu(first) * second


def gelu(x, approximate="none"):
    if approximate == "none":
        return x / 2 * (1 + torch.erf(x / math.sqrt(2)))
    return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gradient_of(function):
    """Returns the gradient of ``function`` as a function of the gradient of its result and of its argument."""

    def backward(dy, x, *args, **kwargs):
        x = x.clone().requires_grad_()
        (dx,) = torch.autograd.grad(function(x, *args, **kwargs), x, dy)
        return dx

    return backward


@pytest.mark.parametrize("dtype", FLOATING)
def test_swiglu_and_its_gradient_are_those_of_the_reference(dtype: torch.dtype) -> None:
    x = normal(3, 4, 6, dtype=dtype)
    check(torch_npu.npu_swiglu, (x,), swiglu)
    check(torch_npu.npu_swiglu, (x, 1), swiglu)
    check(torch_npu.npu_swiglu_backward, (normal(3, 4, 3, dtype=dtype), x), gradient_of(swiglu))


def test_gradients_are_those_of_the_reference() -> None:
    x = normal(3, 8)
    check_gradient(torch_npu.npu_swiglu, (x,), swiglu)
    check_gradient(torch_npu.npu_clipped_swiglu, (x,), clipped_swiglu, limit=1.0)
    check_gradient(torch_npu.npu_fast_gelu, (x,), fast_gelu)
    check_gradient(torch_npu.npu_geglu, (x,), geglu)
    check_gradient(torch_npu.npu_silu, (x,), silu)


@pytest.mark.parametrize("dtype", FLOATING)
def test_every_form_of_silu_is_that_of_the_reference(dtype: torch.dtype) -> None:
    x = normal(3, 5, dtype=dtype)
    check(torch_npu.npu_silu, (x,), silu)
    check(torch_npu.npu_silu_, (x,), lambda x: x.copy_(silu(x)))
    args = (normal(3, 5, dtype=dtype, seed=1), x, torch.nn.functional.silu(x))
    check(torch_npu.npu_silu_backward, args, lambda dy, x, _: gradient_of(silu)(dy, x))


def fast_gelu(x):
    return x / (1 + torch.exp(-1.702 * x.abs())) * torch.exp(0.851 * (x - x.abs()))


def test_fast_gelu() -> None:
    x = 4 * normal(3, 5)
    check(torch_npu.npu_fast_gelu, (x,), fast_gelu)
    check(torch_npu.fast_gelu, (x,), fast_gelu)
    check(torch_npu.npu_fast_gelu_backward, (normal(3, 5, seed=1), x), gradient_of(fast_gelu))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_every_form_of_gelu_is_that_of_the_reference(approximate: str) -> None:
    x = normal(3, 6)
    check(torch_npu.npu_gelu, (x,), gelu, approximate=approximate)
    check(torch_npu.npu_gelu_backward, (normal(3, 6, seed=1), x), gradient_of(gelu), approximate=approximate)
    check(
        torch_npu.npu_gelu_mul,
        (x,),
        lambda x, approximate: gelu(x[:, :3], approximate) * x[:, 3:],
        approximate=approximate,
    )


def geglu(x, dim=-1, approximate=1, activate_left=False):
    left, right = x.chunk(2, dim)
    if activate_left:
        left, right = right, left
    activated = gelu(right, ["none", "tanh"][approximate])
    return left * activated, activated


@pytest.mark.parametrize("args", [(), (0,), (-1, 0, True), (1, 1, True)])
def test_geglu_and_its_gradient_are_those_of_the_reference(args: tuple) -> None:
    x = normal(4, 6)
    check(torch_npu.npu_geglu, (x, *args), geglu)
    product, activated = geglu(x, *args)
    backward = gradient_of(lambda x, *args: geglu(x, *args)[0])
    dy = normal(*product.shape, seed=1)
    check(torch_npu.npu_geglu_grad, (dy, x, activated, *args), lambda dy, x, _, *args: backward(dy, x, *args))


def test_mish_and_its_gradient_are_those_of_torch() -> None:
    x = normal(3, 5)
    check(torch_npu.npu_mish, (x,), lambda x: x * torch.tanh(functional.softplus(x)))
    check(torch_npu.npu_mish_backward, (normal(3, 5, seed=1), x), gradient_of(functional.mish))


def clipped_swiglu(x, *, group_index=None, dim=-1, alpha=1.702, limit=7.0, bias=1.0, interleaved=True):
    x = x.movedim(dim, -1)
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    a, b = a.clamp(max=limit), b.clamp(-limit, limit)
    y = (a * torch.sigmoid(alpha * a) * (b + bias)).movedim(-1, dim)
    if group_index is not None:
        y.view(-1, *y.shape[y.ndim + dim :])[int(group_index.sum()) :] = 0
    return y


@pytest.mark.parametrize("interleaved", [True, False])
def test_clipped_swiglu(interleaved: bool) -> None:
    op, x = torch_npu.npu_clipped_swiglu, 3 * normal(6, 4, 8)
    check(op, (x,), clipped_swiglu, interleaved=interleaved, dim=-2)
    check(op, (x,), clipped_swiglu, interleaved=interleaved, alpha=1.0, limit=2.0, bias=0.5)
    check(op, (x[0],), clipped_swiglu, interleaved=interleaved, group_index=torch.tensor([1, 0, 2]))


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "message"),
    [
        ("npu_swiglu", (normal(3, 5),), {}, "npu_swiglu: dimension -1 of input has size 5, which has no two halves"),
        ("npu_swiglu", (normal(3, 4).int(),), {}, "npu_swiglu: input is of type Int"),
        (
            "npu_gelu",
            (normal(3),),
            {"approximate": "erf"},
            "npu_gelu: approximate is 'erf', allowed are 'none' and 'tanh'",
        ),
        ("npu_geglu", (normal(4), -1, 2), {}, r"npu_geglu: approximate is 2, allowed are 0 \(none\) and 1 \(tanh\)"),
        (
            "npu_mish_backward",
            (normal(4), normal(3)),
            {},
            r"npu_mish_backward: grad has shape \[4\], and not that of input",
        ),
        (
            "npu_clipped_swiglu",
            (normal(4),),
            {"group_index": torch.tensor([1])},
            "npu_clipped_swiglu: dim is 0, which with group_index has no rows before it",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(name: str, args: tuple, kwargs: dict, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        getattr(torch_npu, name)(*args, **kwargs)
