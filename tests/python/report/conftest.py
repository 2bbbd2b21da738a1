# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
import torch

import npugraph_ex


@pytest.fixture(autouse=True)
def no_grad():
    torch._dynamo.reset()
    with torch.no_grad():
        yield


@pytest.fixture
def rule():
    """Registers the rule x.sin() * y -> x.cos() + y, for a last size of 6."""
    known = {rule.name for rule in npugraph_ex.replacements()}

    def sine(x, y):
        return x.sin() * y

    def cosine(x, y):
        return x.cos() + y

    def is_six(match) -> bool:
        return match.output_node().meta["val"].shape[-1] == 6

    npugraph_ex.register_replacement(sine, cosine, [torch.empty(2, 6), torch.empty(2, 6)], extra_check=is_six)
    yield
    for added in npugraph_ex.replacements():
        if added.name not in known:
            added.remove()
