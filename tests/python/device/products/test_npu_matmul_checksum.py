# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/matmul/matmul_checksum.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu  # noqa: F401

from tests.python.device.npu_operators import FLOATING, check, normal

VERIFY = torch.ops.npu._npu_matmul_abft_verify


def verify(a, b, c, weight, *, e_max=0.001):
    """Computes each checksum of each row from the product itself."""
    weight = weight.reshape(len(weight), -1)
    wrong = torch.einsum("...mn,nk->...mk", c - a @ b, weight).abs()
    scale = torch.einsum("...mn,nk->...mk", a.abs() @ b.abs(), weight.abs())
    return torch.tensor(not bool((wrong <= scale * e_max).all()))


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("batches", [(), (2,)])
def test_a_product_that_is_right_and_one_that_is_not(dtype: torch.dtype, batches: tuple[int, ...]) -> None:
    a, b = normal(*batches, 5, 7, dtype=dtype), normal(*batches, 7, 6, dtype=dtype, seed=1)
    c = a @ b
    faulty = c.clone()
    faulty[..., 3, 2] += 1
    once = dtype == torch.float32 and not batches
    for weight in (torch.ones(6), torch.stack([torch.ones(6), torch.arange(6.0)], 1)):
        for product, is_wrong in ((c, False), (faulty, True)):
            args = (a, b, product, weight.to(dtype))
            check(VERIFY, args, verify, e_max=0.01, compiled=once and is_wrong, dynamic=once)
            assert VERIFY(*args, e_max=0.01).item() is is_wrong


def test_what_is_no_number_is_wrong() -> None:
    a, b = normal(2, 3), normal(3, 4)
    assert VERIFY(a, b, a @ b * float("nan"), torch.ones(4)).item()


def test_matrices_that_do_not_fit_are_refused() -> None:
    message = r"_npu_matmul_abft_verify: a, b, c and checksum_weight have shapes \[2, 3\], \[3, 4\], \[2, 4\] and \[5\]"
    with pytest.raises(RuntimeError, match=message):
        VERIFY(normal(2, 3), normal(3, 4), normal(2, 4), normal(5))
