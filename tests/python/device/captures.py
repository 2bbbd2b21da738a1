# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of captured graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def captured(fn: Callable[[], Any], **options: Any) -> tuple[torch.npu.NPUGraph, Any]:
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, **options):
        results = fn()
    return graph, results


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.cpu(), b.cpu())


def numbers(*sizes: int) -> torch.Tensor:
    return torch.arange(float(torch.Size(sizes).numel()), device="npu").reshape(sizes) / 7
