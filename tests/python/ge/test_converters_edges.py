# SPDX-License-Identifier: Apache-2.0
"""Converters at the edges of what Ascend IR can say: values and gradients are those of eager mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from npugraph.ge.backend.npu_backend import get_npu_backend
from npugraph.ge.converters.values import is_attribute
from tests.python.ge.converted import check_values


def check_gradient(function: Callable[..., Any], *calls: tuple[Any, ...], **how: Any) -> None:
    """Compares the gradient of the first argument of each call."""
    torch._dynamo.reset()
    fast = torch.compile(function, backend=get_npu_backend(), **how)
    for x, *rest in calls:
        x.requires_grad_()
        (expected,) = torch.autograd.grad(function(x, *rest), [x])
        (found,) = torch.autograd.grad(fast(x, *rest), [x])
        torch.testing.assert_close(found, expected)


def test_a_batch_of_ignored_labels_has_no_gradient() -> None:
    """Its loss is a quotient of zeros."""
    check_gradient(lambda x: functional.cross_entropy(x, torch.full((3,), -100)), (torch.randn(3, 5),))


def test_the_gradient_of_the_last_rows() -> None:
    """There may be fewer than the slice asks for."""
    check_gradient(lambda x: (x[-100:] * 2).sum(), (torch.randn(150),), (torch.randn(5),), dynamic=True)


def test_the_gradient_of_as_many_last_rows_as_a_call_says() -> None:
    check_gradient(lambda x, n: (x[-n:] * 2).sum(), (torch.randn(7), 3), (torch.randn(9), 4), dynamic=True)


def test_the_gradient_of_log_sigmoid() -> None:
    check_gradient(lambda x: functional.logsigmoid(x).sum(), (torch.tensor([-2.0, 0.0, 3.0]),))


SPECIAL = torch.tensor([math.inf, -math.inf, math.nan, 1.0, -1.0], dtype=torch.float64)


@pytest.mark.parametrize(
    "function",
    [
        torch.nan_to_num,
        lambda x: functional.leaky_relu(x, 1 / 3),
        lambda x: functional.leaky_relu(x, 0.1),
        lambda x: functional.elu(x, 1 / 3),
        lambda x: torch.histc(x.nan_to_num(0, 2, -2), 3, -1 / 3, 1 / 3),
    ],
)
@torch.no_grad()
def test_numbers_of_float64_keep_their_digits(function: Callable[..., Any]) -> None:
    """Attributes of Ascend IR are float32."""
    torch._dynamo.reset()
    found = torch.compile(function, backend=get_npu_backend())(SPECIAL)
    torch.testing.assert_close(found, function(SPECIAL), rtol=0, atol=0, equal_nan=True)


def test_numbers_that_attributes_keep() -> None:
    assert all(map(is_attribute, (0.1, 1e-5, 0.0, -2.5, 1e30, math.inf)))
    assert not any(map(is_attribute, (1 / 3, 1e300, 0.1 + 1e-12)))


MASKS = torch.tensor([[True, False], [True, True]]), torch.tensor([[True, True], [False, False]])
WHOLE_NUMBERS = torch.tensor([-3, 0, 7]), torch.tensor([2, 5, -1])
SCALARS = torch.tensor(-2.5), torch.tensor(1.5)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x, y: (x * y, x + y, torch.maximum(x, y), torch.minimum(x, y), x.amax(0), y.amin(), x.max()), MASKS),
        (lambda x, y: (x.ceil(), y.floor(), x.round(), y.trunc(), torch.erfinv(x * 0)), WHOLE_NUMBERS),
        (lambda x, y: (x.argmax(0, True), y.argmin(-1), x.any(0, True), y.all(-1), x.logsumexp(0, True)), SCALARS),
    ],
)
@torch.no_grad()
def test_booleans_whole_numbers_and_scalars(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> None:
    check_values(function, *inputs)


def test_the_gradient_of_a_norm_with_a_bias_for_any_sizes() -> None:
    def loss(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, x.shape[-1:], weight, bias).square().sum()

    calls = [(torch.randn(rows, 6), torch.randn(6), torch.randn(6).requires_grad_()) for rows in (3, 5)]
    check_gradient(loss, *calls, dynamic=True)
