# SPDX-License-Identifier: Apache-2.0
"""``ge_config``: levels of optimisation, and the cores that graphs use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import torchair
from npugraph import artifacts
from npugraph.ge.executor import finish
from tests.python.ge.converted import random_tensor as t
from torchair import scope


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    """Options of the process are those of one test."""
    finish()
    yield
    finish()


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """With these options of ``ge_config``."""
    config = torchair.CompilerConfig()
    for name, value in options.items():
        setattr(config.ge_config, name, value)
    torch._dynamo.reset()
    backend = torchair.get_npu_backend(compiler_config=config)
    return torch.compile(function, backend=backend, dynamic=False, fullgraph=True)


def tasks() -> list[Any]:
    return artifacts()[-1].tasks


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.relu(q @ k.mT) * 0.5 + 1, -1) @ v


@torch.no_grad()
def test_level_o1_keeps_operators_apart() -> None:
    inputs = [t(2, 64, 32) for _ in range(3)]
    counts = {}
    for level in ("O3", "O1"):
        torch.testing.assert_close(compiled(attention, oo_level=level)(*inputs), attention(*inputs))
        counts[level] = [task.origin for task in tasks()]
    assert any(", " in origin for origin in counts["O3"])
    assert not any(", " in origin for origin in counts["O1"])
    assert len(counts["O1"]) > len(counts["O3"])


@pytest.mark.feature("4.10", "6.17")
@torch.no_grad()
def test_cores_of_a_process_limit_its_graphs() -> None:
    def limited(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with scope.limit_core_num(1, 1):
            y = q @ k
        return torch.relu(y) @ v

    inputs = [t(64, 64) for _ in range(3)]
    torch.testing.assert_close(compiled(limited, aicore_num="3|2")(*inputs), limited(*inputs))
    kinds = {task.origin: dict(task.limits) for task in tasks()}
    assert kinds["MatMul"] == {"cube_core_num": 1, "vector_core_num": 1}
    assert all(
        limits == {"cube_core_num": 3, "vector_core_num": 2} for origin, limits in kinds.items() if origin != "MatMul"
    )
    assert len(kinds) > 1
