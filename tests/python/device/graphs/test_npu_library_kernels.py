# SPDX-License-Identifier: Apache-2.0
"""Operators with kernels of a user's library on npu, called and captured. The library is
tests/unit/core/libraries/sample_kernels.cc."""

from __future__ import annotations

import torch

from tests.python.device.kernel_calls import check_eager_calls, tasks_of_a_capture
from tests.python.sample_kernels import LIBRARY  # noqa: F401  (defines the operators)

ops = torch.ops.test_ops


def test_operators_run_on_npu() -> None:
    check_eager_calls(ops)


def test_a_captured_call_is_a_task_of_the_kernel() -> None:
    assert tasks_of_a_capture(ops) == [
        ("test_ops.scaled_add", "kernel"),
        ("test_ops.scale_", "kernel"),
    ]
