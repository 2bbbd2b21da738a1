# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs that are called without Dynamo's guards, as vLLM calls them."""

from __future__ import annotations

from typing import Any

import torch

from npugraph.backend import npugraph_ex


def test_a_size_of_one() -> None:
    """Dynamo's guards keep sizes of 1 away from graphs with open sizes. Who drops them gets right results."""
    kept: list[Any] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        run = npugraph_ex(gm, inputs)
        kept.append((run, inputs))
        return run

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ w, 1).sum(0) + x.shape[0]

    w = torch.randn(8, 6)
    with torch.no_grad():
        x = torch.randn(4, 8)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(torch.compile(model, backend=backend, fullgraph=True)(x), model(x))
        [(run, inputs)] = kept
        for size in (1, 3):
            x = torch.randn(size, 8)
            args = [
                size if isinstance(given, torch.SymInt) else x if given.dim() and given.shape[1] == 8 else w
                for given in inputs
            ]
            torch.testing.assert_close(run(*args)[0], model(x))
