# SPDX-License-Identifier: Apache-2.0
"""Static kernels of compiled code on tensors of npu."""

from __future__ import annotations

import pytest
import torch
import torch_npu  # noqa: F401

import npugraph


@pytest.mark.feature("1.16", "1.17")
def test_captures_of_npu_have_kernels_for_their_sizes():
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.tanh() * 1.25 + x, -1)

    npugraph.reset()
    options = {"static_kernel_compile": True, "_vllm_aclnn_static_kernel_sym_range": [8, 16]}
    compiled = torch.compile(fn, backend="npugraph_ex", dynamic=True, options=options)
    with torch.no_grad():
        for rows in (8, 9, 16):
            x = torch.randn(rows, 24, device="npu")
            torch.testing.assert_close(compiled(x), fn(x))
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["static_kernels"] == 2 * len(artifact.tasks)
    assert artifact.explain().count("code of its own") == 2
