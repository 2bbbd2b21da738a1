# SPDX-License-Identifier: Apache-2.0
"""Extensions for torch that call kernels by ``EXEC_NPU_CMD``, on npu."""

from __future__ import annotations

import pytest
import torch

from tests.python.ascend_extension import ops
from tests.python.device.kernel_calls import check_eager_calls, tasks_of_a_capture


def test_functions_run_kernels_on_npu() -> None:
    check_eager_calls(ops)


@pytest.mark.feature("7.01")
def test_a_captured_call_is_a_task_of_the_kernel() -> None:
    assert tasks_of_a_capture(ops) == [
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
