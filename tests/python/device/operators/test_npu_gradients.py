# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/training/gradients.cc, against torch's gradients in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, check_refused, integers, normal


def gradient(forward, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().requires_grad_()
    return torch.autograd.grad(forward(leaf), leaf, grad)[0]


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gather_backward_is_the_gradient_of_torch(dim: int) -> None:
    index = integers(0, 3, 3, 2, 3)

    def reference(grad, size, dim, index, _):
        return gradient(lambda x: x.gather(dim, index), torch.zeros(size).to(grad), grad)

    check(torch_npu.npu_gather_backward, (normal(3, 2, 3), [4, 5, 3], dim, index, False), reference)


def test_gather_refuses() -> None:
    text = r"npu_gather_backward: sparse_grad is True, allowed is False"
    with pytest.raises(NotImplementedError, match=text):
        torch_npu.npu_gather_backward(normal(3), [3], 0, integers(0, 3, 3), True)
    check_refused("npu_gather_backward", r"grad has shape \[3\], and not", normal(3), [3], 0, integers(0, 3, 2), False)


@pytest.mark.parametrize("p", [1, 2, 3.5, math.inf])
@pytest.mark.parametrize("dim", [0, -1])
def test_renorm_backward_is_the_gradient_of_torch(p: float, dim: int) -> None:
    x = normal(4, 3, 5)
    x[:, :, 1] *= 0.01
    x[1] *= 0.01

    def reference(grad, x, p, dim, maxnorm):
        return gradient(lambda x: x.renorm(p, dim, maxnorm), x, grad)

    args = (normal(4, 3, 5, seed=1), x, p, dim, 0.7)
    check(torch_npu.npu_renorm_backward, args, reference, compiled=dim == 0)


def test_renorm_at_zeros() -> None:
    x = normal(4, 6)
    x[:, 2], x[1] = 0, 0
    for p in (1, 2):
        got = torch_npu.npu_renorm_backward(normal(4, 6, seed=1), x, p, 0, 0.5)
        want = gradient(lambda x, p=p: x.renorm(p, 0, 0.5), x, normal(4, 6, seed=1))
        torch.testing.assert_close(got, want)
    check_refused("npu_renorm_backward", r"p is -1, allowed is more than 0", x, x, -1, 0, 0.5)


HANN = torch.hann_window(6)
TRANSFORMS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((20,), {}),
    ((2, 20), {"hop_length": 3, "normalized": True}),
    ((20,), {"win_length": 6, "window": HANN, "onesided": False}),
    ((2, 20), {"hop_length": 5, "win_length": 6, "window": HANN, "return_complex": False}),
]


@pytest.mark.parametrize(("size", "kwargs"), TRANSFORMS)
def test_stft_backward_is_the_gradient_of_torch(size: tuple[int, ...], kwargs: dict[str, Any]) -> None:
    def forward(x, kwargs):
        out = x.stft(8, **(kwargs | {"center": False, "return_complex": True}))
        return out if kwargs.get("return_complex", True) else torch.view_as_real(out)

    def reference(grad, x, n_fft, **kwargs):
        return gradient(lambda x: forward(x, kwargs), x, grad.to(forward(x, kwargs).dtype))

    x = normal(*size)
    like = forward(x, kwargs)
    grad = torch.complex(normal(*like.shape, seed=1), normal(*like.shape, seed=2)) if like.is_complex() else like * 2
    some = "hop_length" in kwargs
    check(torch_npu.stft_backward, (grad, x, 8), reference, dynamic=some, compiled=some, **kwargs)


def test_stft_of_complex_numbers() -> None:
    x, grad = torch.complex(normal(16), normal(16, seed=1)), torch.complex(normal(8, 3), normal(8, 3, seed=2))
    got = torch_npu.stft_backward(grad.npu(), x.npu(), 8, hop_length=4, onesided=False).cpu()
    want = gradient(lambda x: x.stft(8, 4, center=False, onesided=False, return_complex=True), x, grad)
    torch.testing.assert_close(got, want)


def test_stft_refuses() -> None:
    name, grad = "stft_backward", torch.zeros(5, 7, dtype=torch.complex64)
    check_refused(name, r"grad_output has 5 frequencies, allowed are 8", grad, normal(20), 8, onesided=False)
    check_refused(name, r"win_length is 9, allowed are 1 to n_fft, 8", grad, normal(20), 8, win_length=9)
    check_refused(name, r"window has shape \[6\], allowed is \[win_length\], 8", grad, normal(20), 8, window=HANN)
    text = r"n_fft is 8 and hop_length 0, allowed are 1 and more"
    check_refused(name, text, grad, normal(20), 8, hop_length=0)
