# SPDX-License-Identifier: Apache-2.0
"""Sizes and scalars that follow from the contents of tensors: one compile for all of them, no Python."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo.config as dynamo_config

from tests.python.backend.checks import check_captured


@pytest.fixture(autouse=True)
def capture_everything():
    with torch.no_grad(), dynamo_config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def tensors(*values):
    return [lambda value=value: (torch.tensor(value),) for value in values]


@pytest.mark.feature("3.12")
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.nonzero() + 1,
        lambda x: x.masked_select(x > 0).sin(),
        lambda x: x[x > 0] * 2,
        lambda x: torch.unique(x) * 2,
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        lambda x: x.index_put_((x.nonzero().squeeze(1),), torch.tensor(5.0)).sum(),
        lambda x: torch.cat([x[x > 0], x, x[x > 1]]) + 1,
    ],
)
def test_sizes_from_contents(fn) -> None:
    artifacts = check_captured(fn, *tensors([0.0, 1, 2, 0], [0.0, 1, 0, 0], [0.0, 0, 0, 0], [4.0, 3, 2, 1]))
    assert len(artifacts) == 1


def test_sizes_from_contents_of_a_matrix() -> None:
    check_captured(lambda x: x.nonzero(), *tensors([[0, 1, 2, 0], [3, 4, 0, 0]], [[0, 1, 0, 0], [1, 1, 1, 1]]))


def test_repeats() -> None:
    calls = [lambda n=n: (torch.randn(2), torch.tensor(n)) for n in ([2, 3], [0, 1], [0, 0])]
    assert len(check_captured(lambda x, n: torch.repeat_interleave(x, n) + 1, *calls)) == 1


def test_items_as_sizes() -> None:
    def fn(x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return x.narrow(0, 0, k) * 2, x.new_ones(k, 2), torch.arange(k) * 2, k

    calls = [lambda n=n: (torch.randn(8), torch.tensor(n)) for n in (3, 7, 8)]
    assert len(check_captured(fn, *calls)) == 1


@pytest.mark.feature("3.12")
def test_items_as_numbers() -> None:
    numbers = [lambda n=n: (torch.randn(8), torch.tensor(n)) for n in (3.5, 7.5)]
    check_captured(lambda x, n: x * n.item() + n.item() * 2, *numbers)
    torch._dynamo.reset()
    truths = [lambda n=n: (torch.randn(8), torch.tensor(n)) for n in (True, False)]
    check_captured(lambda x, n: x * n.item(), *truths)


def test_lists_of_items() -> None:
    calls = [lambda n=n: (torch.randn(8), torch.tensor(n)) for n in ([3, 5], [2, 6])]
    assert len(check_captured(lambda x, n: torch.split(x, n.tolist()), *calls)) == 1


def test_a_check_that_fails_says_so() -> None:
    def fn(x, n):
        k = n.item()
        torch._check(k >= 2)
        return x.new_ones(k)

    compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True)
    x = torch.randn(3)
    assert compiled(x, torch.tensor(5)).shape == (5,)
    with pytest.raises(RuntimeError):
        compiled(x, torch.tensor(1))
    assert compiled(x, torch.tensor(2)).shape == (2,)
