# SPDX-License-Identifier: Apache-2.0
"""Operators of users that have a kernel of their own and one that says what they are made of."""

from __future__ import annotations

import pytest
import torch

import npugraph

library = torch.library.Library("composite_tests", "FRAGMENT")
library.define("scaled(Tensor x, Tensor w) -> Tensor")
library.impl("scaled", lambda x, w: (x @ w) * 2, "CPU")
library.impl("scaled", lambda x, w: (x @ w) * 2, "CompositeImplicitAutograd")


@pytest.mark.parametrize("gradients", [False, True])
def test_parts_are_compiled(gradients: bool) -> None:
    """In recorded graphs, and in graphs that go through AOTAutograd."""

    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.ops.composite_tests.scaled(x, w).relu() * bias

    x, w = torch.randn(4, 8), torch.randn(8, 8)
    bias = torch.randn(8, requires_grad=gradients)
    fast = torch.compile(model, backend="npugraph_ex", fullgraph=True)
    torch.testing.assert_close(fast(x, w), model(x, w))
    texts = [artifact.graph() for artifact in npugraph.artifacts()]
    assert any("aten.mm" in text for text in texts)
    assert not any("composite_tests" in text for text in texts)
