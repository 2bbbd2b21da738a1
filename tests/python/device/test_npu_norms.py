# SPDX-License-Identifier: Apache-2.0
"""Operators of src/torch/npu_ops/norms.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import FLOATING, check, check_gradient, normal


def rms_norm(x, gamma, epsilon=1e-6):
    dims = list(range(-gamma.dim(), 0))
    rstd = 1 / torch.sqrt((x * x).mean(dims, keepdim=True) + epsilon)
    return x * rstd * gamma, rstd


def add_rms_norm(x1, x2, gamma, epsilon=1e-6):
    return *rms_norm(x1 + x2, gamma, epsilon), x1 + x2


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("gamma_size", [(16,), (4, 16)])
def test_rms_norm(dtype: torch.dtype, gamma_size: tuple[int, ...]) -> None:
    args = (normal(3, 4, 16, dtype=dtype), normal(*gamma_size, dtype=dtype, seed=1))
    check(torch_npu.npu_rms_norm, args, rms_norm)
    check(torch_npu.npu_rms_norm, args, rms_norm, epsilon=0.1)


def test_rms_norm_with_a_wide_gamma() -> None:
    check(torch_npu.npu_rms_norm, (normal(3, 16, dtype=torch.bfloat16), normal(16, seed=1)), rms_norm)


def test_gradients() -> None:
    check_gradient(torch_npu.npu_rms_norm, (normal(3, 16), normal(16, seed=1)), rms_norm)
    check_gradient(torch_npu.npu_add_rms_norm, (normal(3, 16), normal(3, 16, seed=1), normal(16, seed=2)), add_rms_norm)


@pytest.mark.parametrize("dtype", FLOATING)
def test_add_rms_norm(dtype: torch.dtype) -> None:
    args = (normal(3, 16, dtype=dtype), normal(3, 16, dtype=dtype, seed=1), normal(16, dtype=dtype, seed=2))
    # The sum is rounded before it is normalised.
    check(torch_npu.npu_add_rms_norm, args, lambda a, b, g: add_rms_norm((a + b).to(dtype).double(), 0 * b, g))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((normal(3, 16), normal(8)), r"npu_rms_norm: gamma has shape \[8\], .* of x, \[3, 16\]"),
        ((normal(3, 16).int(), normal(16)), r"npu_rms_norm: x is of type Int, allowed are Float, Half, BFloat16"),
        ((normal(3, 16), normal(16).long()), r"npu_rms_norm: gamma is of type Long"),
    ],
)
def test_errors(args: tuple[torch.Tensor, ...], message: str) -> None:
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError, match=message):
            torch_npu.npu_rms_norm(*(x.to(device) for x in args))
