# SPDX-License-Identifier: Apache-2.0
"""Operators with kernels of a user's library on npu, called and captured. The library is
tests/unit/libraries/sample_kernels.cc."""

from __future__ import annotations

import pytest
import torch

import npugraph
from tests.python.device.captures import captured
from tests.python.sample_kernels import LIBRARY  # noqa: F401  (defines the operators)

ops = torch.ops.test_ops


def test_operators_run_on_npu() -> None:
    x = torch.arange(6.0, device="npu").reshape(2, 3)
    assert ops.scaled_add(x, x, 2.0).equal(3 * x)
    ops.scale_(x[:, 1:], 3)
    assert x.tolist() == [[0, 3, 6], [3, 12, 15]]
    with pytest.raises(RuntimeError, match=r"test_ops::fails_inside: no element of x fits"):
        ops.fails_inside(x)
    assert x.device.type == ops.scaled_add(x, x, 2.0).device.type == "npu"


def test_a_captured_call_is_a_task_of_the_kernel() -> None:
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
    assert [(task.name, task.kind) for task in tasks] == [
        ("test_ops.scaled_add", "kernel"),
        ("test_ops.scale_", "kernel"),
    ]
