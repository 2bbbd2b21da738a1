# SPDX-License-Identifier: Apache-2.0
"""Graphs that have torch's higher-order operators for Triton kernels, which take their tensors in a dictionary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu  # noqa: F401
from torch import fx
from torch._higher_order_ops.triton_kernel_wrap import (
    kernel_side_table,
    triton_kernel_wrapper_functional,
    triton_kernel_wrapper_mutation,
)
from torch.fx.experimental.proxy_tensor import make_fx

import npugraph
import torchair
from tests.python.device.triton_here import require_triton

require_triton()

from tests.python.device import triton_samples as samples  # noqa: E402

pytestmark = pytest.mark.feature("7.10")
N, BLOCK = 1000, 64


def launch(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> dict[str, Any]:
    return {
        "kernel_idx": kernel_side_table.add_kernel(samples.scaled_add),
        "constant_args_idx": kernel_side_table.add_constant_args({"BLOCK": BLOCK}),
        "grid": [(-(-N // BLOCK), 1, 1)],
        "tma_descriptor_metadata": {},
        "kwargs": {"x": x, "y": y, "out": out, "n": N, "scale": 2.0},
    }


def mutation(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor]:
    out = torch.empty_like(x)
    triton_kernel_wrapper_mutation(**launch(x, y, out))
    triton_kernel_wrapper_mutation(**launch(out, y, out))
    return (out + 1,)


def functional(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The second kernel reads the result of the first and writes a copy of it."""
    first = triton_kernel_wrapper_functional(**launch(x, y, torch.empty_like(x)), tensors_to_clone=["out"])["out"]
    second = triton_kernel_wrapper_functional(**launch(first, y, first), tensors_to_clone=["out"])["out"]
    return first, second + 1


WANT: dict[Callable[..., Any], Callable[..., Any]] = {
    mutation: lambda x, y: (x + 2 * y + 2 * y + 1,),
    functional: lambda x, y: (x + 2 * y, x + 2 * y + 2 * y + 1),
}


def traced(function: Callable[..., Any], *inputs: torch.Tensor) -> fx.GraphModule:
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    assert any("triton_kernel_wrapper" in str(node.target) and node.kwargs["kwargs"] for node in gm.graph.nodes)
    for node in gm.graph.find_nodes(op="placeholder"):
        node.meta["example_value"] = node.meta["val"]
    return gm


@pytest.mark.filterwarnings("ignore:option 'mode'")
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("function", WANT)
@pytest.mark.parametrize("device", ["cpu", "npu"])
@torch.no_grad()
def test_they_run_as_operators_of_their_kernels(device: str, function: Callable[..., Any], mode: str) -> None:
    x, y = (torch.randn(N, device=device) for _ in range(2))
    config = torchair.CompilerConfig()
    config.mode = mode
    fast = torchair.get_npu_backend(compiler_config=config)(traced(function, x, y), [x, y])
    for _ in range(2):
        x, y = (torch.randn(N, device=device) for _ in range(2))
        torch.testing.assert_close(tuple(fast(x, y)), WANT[function](x, y))
    if mode == "reduce-overhead":
        tasks = npugraph.artifacts()[-1].tasks
        assert sum("scaled_add" in task.name for task in tasks) == 2
        assert sum(task.bytes_copied for task in tasks) == (0 if function is mutation else 4 * N)
