# SPDX-License-Identifier: Apache-2.0
"""No task reads memory that nobody wrote: all of it is NaN here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional as F

from tests.python import layouts
from tests.python.backend.checks import assert_same, compile_ex


@pytest.fixture(autouse=True)
def poison() -> Iterator[None]:
    with layouts.poison():
        yield


MODULE = torch.nn.BatchNorm1d(5, track_running_stats=False)
# The whole operators, and what torch makes of them for gradients.
NORMS = {
    "module": lambda x: MODULE(x[..., 0]),
    "function": lambda x: F.batch_norm(x, None, None, training=True),
    "with statistics": lambda x: F.batch_norm(x, torch.zeros(5), torch.ones(5), training=True),
    "native": lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
    "native with parameters": lambda x: torch.native_batch_norm(
        x, torch.arange(5.0), torch.ones(5), torch.zeros(5), torch.ones(5), True, 0.1, 1e-5
    ),
    "instances": lambda x: F.instance_norm(x),
}


@pytest.mark.each_value
@pytest.mark.parametrize(("dynamic", "trains"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("norm", NORMS)
def test_batch_norm(norm: str, dynamic: bool, trains: bool) -> None:
    compiled = compile_ex(NORMS[norm], dynamic=dynamic)
    for layout in (layouts.turned, layouts.with_gaps):
        x = layout(torch.randn(4, 5, 3, 7)).requires_grad_(trains)
        got, want = compiled(x), NORMS[norm](x)
        torch.testing.assert_close(got, want)
        if trains:
            sums = (layouts.tensors(results)[0].sin().sum() for results in (got, want))
            torch.testing.assert_close(*(torch.autograd.grad(one, x) for one in sums))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", [layouts.turned, layouts.with_gaps])
def test_statistics_that_batch_norm_writes(layout, dynamic: bool) -> None:
    """The schema of ``native_batch_norm`` does not say that it writes them, so nothing else may share their memory."""

    def fn(x, mean, variance):
        before, zeros, ones = mean.clone(), torch.zeros(5), torch.ones(5)
        first = torch.native_batch_norm(x, torch.ones(5), torch.zeros(5), zeros, ones, True, 0.1, 1e-5)
        second = torch.native_batch_norm(x, None, None, mean, variance, True, 0.1, 1e-5)
        return *first, *second, before, zeros, ones, mean + 1, torch.zeros(5), torch.ones(5)

    compiled = compile_ex(fn, dynamic=dynamic)
    for rows in (4, 3):
        x = layout(torch.randn(rows, 5, 3, 7)).requires_grad_()
        given, expected = ((torch.zeros(5), torch.ones(5)) for _ in range(2))
        got, want = compiled(x, *given), fn(x, *expected)
        torch.testing.assert_close((got, given), (want, expected))
        torch.testing.assert_close(*(torch.autograd.grad((y[0] * y[3].sin()).sum(), x) for y in (got, want)))


@pytest.mark.parametrize("make", [lambda: torch.randn(5, 4).t(), lambda: torch.randn(8, 10)[::2, ::2]])
def test_batch_norm_of_planes(make) -> None:
    x = make()
    assert_same(compile_ex(NORMS["function"])(x), NORMS["function"](x), exact=False)
