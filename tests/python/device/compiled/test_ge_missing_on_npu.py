# SPDX-License-Identifier: Apache-2.0
"""Operators without a converter on npu: they run eagerly on the device, between graphs of GE."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu  # noqa: F401

import torchair


def step(x: torch.Tensor, total: torch.Tensor) -> Any:
    largest = torch.cummax(torch.relu(x * 2), 0)[0] * 2 + total
    total.add_(largest)
    values, places = torch.sort(largest)
    return values + 1, places, largest.t(), torch.zeros(3, device=x.device)


@pytest.mark.parametrize("dynamic", [False, True])
@torch.no_grad()
def test_results_and_written_inputs_are_on_npu(dynamic: bool) -> None:
    torch._dynamo.reset()
    fast = torch.compile(step, backend=torchair.get_npu_backend(), dynamic=dynamic)
    for rows in (4, 6) if dynamic else (4, 4):
        x, total = (torch.randn(rows, 5).npu() for _ in range(2))
        copy = total.clone()
        for ours, theirs in zip((*fast(x, total), total), (*step(x, copy), copy), strict=True):
            assert ours.device == theirs.device == x.device
            assert torch.equal(ours.cpu(), theirs.cpu()) and ours.stride() == theirs.stride()
