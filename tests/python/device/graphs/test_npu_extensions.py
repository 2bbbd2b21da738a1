# SPDX-License-Identifier: Apache-2.0
"""Extensions for torch that call kernels by ``EXEC_NPU_CMD``, on npu."""

from __future__ import annotations

import pytest
import torch

import npugraph
from tests.python.ascend_extension import ops
from tests.python.device.captures import captured


def test_functions_run_kernels_on_npu() -> None:
    x = torch.arange(6.0, device="npu").reshape(2, 3)
    tripled = ops.scaled_add(x, x, 2.0)
    assert tripled.equal(3 * x)
    assert tripled.device == x.device
    ops.scale_(x[:, 1:], 3)
    assert x.tolist() == [[0, 3, 6], [3, 12, 15]]
    with pytest.raises(RuntimeError, match=r"test_ops::fails_inside: no element of x fits"):
        ops.fails_inside(x)


@pytest.mark.feature("7.01")
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
        ("npugraph_kernels.test_ops__scaled_add", "kernel"),
        ("npugraph_kernels.test_ops__scale_", "kernel"),
    ]


@pytest.mark.feature("7.01", "12e.6")
def test_a_compiled_graph_calls_the_function() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = ops.scaled_add(x * 2, x, 0.5) + 1
        ops.scale_(y, 2.0)
        return y

    compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True)
    for _ in range(3):
        x = torch.randn(6, device="npu")
        assert compiled(x).equal(fn(x))
