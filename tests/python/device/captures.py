# SPDX-License-Identifier: Apache-2.0
"""What tests of captured graphs share."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def few_objects() -> Iterator[None]:
    """Each capture collects garbage, which takes long among the objects of all that was imported."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def captured(fn: Callable[[], Any], **options: Any) -> tuple[torch.npu.NPUGraph, Any]:
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, **options):
        results = fn()
    return graph, results


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.cpu(), b.cpu())


def numbers(*sizes: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(sizes).numel()), device="npu").reshape(sizes) / 7
