# SPDX-License-Identifier: Apache-2.0
"""Training with checkpoints draws the random numbers of eager mode, and runs no task in Python."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import npugraph
from tests.python.backend.checks import compile_ex
from tests.python.backend.training.checkpoint_programs import PROGRAMS, SOME, check_program


@pytest.fixture(autouse=True)
def forget() -> None:
    npugraph.reset()


@pytest.mark.parametrize("name", SOME)
def test_gradients_with_checkpoints_are_those_of_eager(name: str) -> None:
    check_program(name, "cpu", sizes=(5,))


@pytest.mark.long
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_checkpoints(name: str, dynamic: bool) -> None:
    check_program(name, "cpu", dynamic=dynamic)


def test_states_of_generators_are_values_of_the_graph() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        def part(x: torch.Tensor) -> torch.Tensor:
            return F.dropout(F.dropout(F.scaled_dot_product_attention(x, x, x), 0.1), 0.2)

        return checkpoint(part, x, use_reentrant=False).sum()

    x = torch.randn(1, 2, 4, 8, requires_grad=True)
    gradients = []
    for run in (compile_ex(fn), fn):
        torch.manual_seed(5)
        gradients.append(torch.autograd.grad(run(x), x))
    torch.testing.assert_close(*gradients)
    forward, backward = ([task.name for task in artifact.tasks] for artifact in npugraph.artifacts())
    assert forward.count("npugraph.random_state") == 2  # attention draws nothing
    assert backward.count("npugraph.random_state") == 2 and backward.count("npugraph.set_random_state") == 4
