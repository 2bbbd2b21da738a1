# SPDX-License-Identifier: Apache-2.0
"""Super kernels of compiled code on tensors of npu, by the marks of torch.npu."""

from __future__ import annotations

import pytest
import torch
import torch_npu  # noqa: F401

import npugraph


@pytest.mark.feature("1.18")
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_tasks_between_the_marks_become_one(device: str):
    weights = torch.randn(16, 16, device=device)

    def fn(x: torch.Tensor) -> torch.Tensor:
        torch.npu.super_kernel_scope_begin("layers")
        for _ in range(3):
            x = torch.softmax(torch.relu(x @ weights) + 1, -1)
        torch.npu.super_kernel_scope_end("layers")
        return x

    x = torch.randn(4, 16, device=device)
    results = []
    for switch in (False, True):
        compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True, options={"super_kernel_optimize": switch})
        with torch.no_grad():
            compiled(x)
            with npugraph.task_log() as log:
                results.append(compiled(x))
        names = [entry.name for entry in log]
        assert names == ["super_kernel.layers"] if switch else len(names) == 6 and "layers" not in str(names)
    assert torch.equal(*results)
    torch.testing.assert_close(results[0], fn(x))


@pytest.mark.feature("4.15", "11.09")
def test_a_mark_without_its_other_half_is_an_error():
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch.npu.super_kernel_scope_begin("layers")
        return x + 1

    message = (
        r"super kernel scope 'layers' begins at .*test_npu_super_kernels.py:\d+ in fn, and does not end in this graph"
    )
    with torch.no_grad(), pytest.raises(RuntimeError, match=message):
        torch.compile(fn, backend="npugraph_ex", fullgraph=True)(torch.ones(4))
