# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs of npu tensors that later processes use."""

from __future__ import annotations

import pytest
import torch
import torch_npu
from torch._dynamo.utils import counters

import npugraph
import npugraph_ex


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache.add_(x.sum(0))
        y, _, _ = torch_npu.npu_add_rms_norm(self.linear(x), x, torch.ones_like(cache), 1e-6)
        return y + cache


@pytest.mark.feature("5.01", "5.06", "12e.9")
@torch.no_grad()
def test_npu_and_cpu_tensors_have_graphs_of_their_own(tmp_path) -> None:
    model = Model()
    for device in ("npu", "cpu", "npu"):
        npugraph.reset()
        model.to(device)
        function = npugraph_ex.inference.cache_compile(model.forward, cache_dir=tmp_path)
        ours, eagers = torch.zeros(8, device=device), torch.zeros(8, device=device)
        x = torch.randn(3, 8, device=device)
        if device == "cpu":
            with pytest.warns(UserWarning, match="compiled again"):
                function(x, ours.clone())
        y = function(x, ours)
        assert y.device == x.device
        torch.testing.assert_close(y, model(x, eagers))
        torch.testing.assert_close(ours, eagers)
    assert counters["npugraph_ex"]["compiles"] == 0
    assert counters["npugraph_ex"]["inference_cache_hits"] == 1
