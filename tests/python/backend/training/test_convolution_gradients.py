# SPDX-License-Identifier: Apache-2.0
"""Gradients of convolutions and of batch normalisation: as accurate as eager's, of operators that are generated."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.python.backend.checks import compile_ex, compiled_artifacts

BACKWARD = "aten.convolution_backward"


def step(model: nn.Module, x: torch.Tensor, run: Callable[..., torch.Tensor]) -> list[torch.Tensor]:
    """Returns the results of two calls of ``run``, which is ``model``, and then its gradients and buffers."""
    own, results = x.detach().clone().requires_grad_(), []
    for _ in range(2):
        out = run(own)
        (out.double() * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum().backward()
        results.append(out.detach())
    gradients = [each.grad for each in (own, *model.parameters())]
    return [*results, *gradients, *(each.clone() for each in model.buffers() if each.is_floating_point())]


def check(model: nn.Module, x: torch.Tensor, dtype: torch.dtype) -> list[str]:
    """Compares with eager and float64. Returns the names of all tasks."""
    first, second, wide = (copy.deepcopy(model).to(each) for each in (dtype, dtype, torch.float64))
    compiled = compile_ex(first)
    own, eager = step(first, x.to(dtype), compiled), step(second, x.to(dtype), second)
    exact = step(wide, x.double(), wide)
    for a, b, c in zip(own, eager, exact, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        scale = c.abs().max().item()
        assert (a - c).abs().max().item() <= 3 * (b - c).abs().max().item() + 1e-6 * scale
    return [task.name for artifact in compiled_artifacts() for task in artifact.tasks]


# A layer, the sizes of its operand, and how many of ATen's operators its backward has in half precision
LAYERS = [
    (nn.Conv2d(8, 12, 1), (3, 8, 10, 9), 0),
    (nn.Conv2d(8, 12, 1, bias=False), (1, 8, 7, 7), 0),
    (nn.Conv1d(8, 12, 1), (2, 8, 33), 0),
    (nn.Conv2d(8, 12, 3, padding=1), (2, 8, 10, 9), 1),
    (nn.Conv2d(8, 12, (3, 5), padding=(0, 2), bias=False), (2, 8, 12, 11), 1),
    (nn.Conv2d(8, 12, 3, padding=3), (2, 8, 10, 9), 1),  # more padding than the kernel: ATen's as a whole
    (nn.Conv2d(8, 12, 1, stride=2), (2, 8, 10, 9), 1),
    (nn.Conv2d(8, 12, 3, padding=1, groups=4), (2, 8, 10, 9), 1),
    (nn.ConvTranspose2d(8, 12, 3), (2, 8, 10, 9), 1),
]


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("layer", "sizes", "remaining"), LAYERS)
def test_gradients_of_convolutions_are_as_accurate_as_eager(layer, sizes, remaining, dtype) -> None:
    assert check(layer, torch.randn(sizes), dtype).count(BACKWARD) == remaining


@pytest.mark.parametrize(("layer", "sizes"), [row[:2] for row in LAYERS])
def test_gradients_of_convolutions_in_float32_are_atens(layer, sizes) -> None:
    assert check(layer, torch.randn(sizes), torch.float32).count(BACKWARD) == 1


@pytest.mark.parametrize("frozen", ["x", "weight"])
@pytest.mark.parametrize("kernel", [1, 3])
def test_some_gradients_of_convolutions(kernel, frozen) -> None:
    def run(compiled: bool) -> list[torch.Tensor | None]:
        torch.manual_seed(0)
        layer = nn.Conv2d(8, 12, kernel, padding=kernel // 2, dtype=torch.bfloat16)
        layer.weight.requires_grad_(frozen != "weight")
        x = torch.randn(2, 8, 10, 9, dtype=torch.bfloat16, requires_grad=frozen != "x")
        (compile_ex(layer) if compiled else layer)(x).float().square().sum().backward()
        return [x.grad, layer.weight.grad, layer.bias.grad]

    for own, eager in zip(run(True), run(False), strict=True):
        assert (own is None) == (eager is None)
        if own is not None:
            torch.testing.assert_close(own, eager, rtol=2e-2, atol=2e-2 * eager.abs().max().item())


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    ("layer", "sizes"),
    [
        (nn.BatchNorm2d(6), (4, 6, 9, 11)),
        (nn.BatchNorm2d(6, affine=False), (4, 6, 9, 11)),
        (nn.BatchNorm1d(6, momentum=0.3, eps=1e-3), (50, 6)),
        (nn.BatchNorm1d(6), (5, 6, 20)),
        (nn.BatchNorm3d(3), (2, 3, 4, 5, 6)),
        (nn.BatchNorm2d(6), (1, 6, 1, 2)),
    ],
)
def test_batch_norm(layer, sizes, dtype) -> None:
    names = check(layer, torch.randn(sizes) * 3 + 1, dtype)
    assert not any(name.startswith("aten.") and "batch_norm" in name for name in names)


def test_batch_norm_of_changing_sizes() -> None:
    model = nn.Sequential(nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU())
    other = copy.deepcopy(model)
    compiled = compile_ex(model, dynamic=True)
    for batch in (2, 5, 3):
        x = torch.randn(batch, 3, 8, 8)
        for each in (compiled, other):
            each(x).square().sum().backward()
    for own, eager in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(own.grad, eager.grad, rtol=1e-4, atol=1e-4 * eager.grad.abs().max().item())
    torch.testing.assert_close(model[1].running_var, other[1].running_var)
