# SPDX-License-Identifier: Apache-2.0
"""Kernels of Triton under its decorators that choose parameters."""

from __future__ import annotations

import pytest
import torch
import torch_npu  # noqa: F401
from torch._dynamo.exc import Unsupported

import npugraph
from tests.python.device.triton_here import require_triton

triton = require_triton()

from tests.python.device import triton_samples as samples  # noqa: E402

pytestmark = pytest.mark.feature("7.10")


def with_heuristics(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    samples.one_or_two_more[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out * 2


def with_one_configuration(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    samples.one_more[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, out, x.numel())
    return out * 2


@pytest.mark.parametrize("function", [with_heuristics, with_one_configuration])
@pytest.mark.parametrize("device", ["cpu", "npu"])
@torch.no_grad()
def test_decorated_kernels_are_tasks(device, function) -> None:
    torch._dynamo.reset()
    fast = torch.compile(function, backend="npugraph_ex", fullgraph=True)
    for n in (100, 101):
        x = torch.randn(n, device=device)
        assert torch.equal(fast(x), function(x))
    assert len(npugraph.artifacts()[-1].python_tasks) == 1


def test_nothing_is_measured_under_the_interpreter() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        samples.tuned[(1,)](x, x, x.numel())
        return x

    torch._dynamo.reset()
    with pytest.raises(Unsupported, match=r"the kernel tuned is autotuned; .* only with one configuration"):
        torch.compile(function, backend="npugraph_ex", fullgraph=True)(torch.randn(64))
