# SPDX-License-Identifier: Apache-2.0
"""Calls of the operators that the kernels of tests/unit/core/libraries/sample_kernels.cc compute, on npu. ``ops`` is
the namespace of the operators."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import npugraph
from tests.python.device.captures import captured


def check_eager_calls(ops: Any) -> None:
    x = torch.arange(6.0, device="npu").reshape(2, 3)
    tripled = ops.scaled_add(x, x, 2.0)
    assert tripled.equal(3 * x)
    assert x.device.type == "npu"
    assert tripled.device == x.device
    ops.scale_(x[:, 1:], 3)
    assert x.tolist() == [[0, 3, 6], [3, 12, 15]]
    with pytest.raises(RuntimeError, match=r"test_ops::fails_inside: no element of x fits"):
        ops.fails_inside(x)


def tasks_of_a_capture(ops: Any) -> list[tuple[str, str]]:
    """Names and kinds of the tasks of a captured call of ``scaled_add`` and then ``scale_``, whose replay is right."""
    x = torch.ones(6, device="npu")

    def fn() -> torch.Tensor:
        y = ops.scaled_add(x, x, 1.0)
        ops.scale_(y, 2.0)
        return y

    graph, y = captured(fn)
    x.fill_(2)
    with npugraph.task_log() as tasks:
        graph.replay()
        torch.npu.synchronize()
    assert y.tolist() == [8.0] * 6
    return [(task.name, task.kind) for task in tasks]
