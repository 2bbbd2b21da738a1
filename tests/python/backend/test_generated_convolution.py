# SPDX-License-Identifier: Apache-2.0
"""Convolutions as generated code, against eager mode."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import npugraph
from tests.python.backend.checks import compile_ex


def kinds(fn, *inputs: torch.Tensor, tolerance: float = 1e-5, **arguments) -> list[str]:
    """Compares with float64, and gives the kinds of the tasks."""
    npugraph.reset()
    with torch.no_grad():
        y = compile_ex(fn, **arguments)(*inputs)
        y64 = fn(*(x.double() for x in inputs))
    assert (y.double() - y64).abs().max() <= tolerance * max(y64.abs().max().item(), 1e-30)
    assert y.stride() == fn(*inputs).stride()
    return [task.kind for task in npugraph.artifacts()[0].tasks]


@pytest.mark.parametrize(
    ("weight", "image", "options"),
    [
        ((16, 3, 3, 3), (1, 3, 14, 14), {"padding": 1}),
        ((16, 3, 3, 3), (2, 3, 15, 13), {"padding": (1, 2), "stride": (2, 1), "dilation": (1, 2)}),
        ((32, 3, 8, 8), (1, 3, 64, 64), {"stride": 8}),
        ((24, 16, 1, 1), (3, 16, 7, 7), {}),
        ((16, 4, 3, 3), (1, 8, 10, 10), {"groups": 2, "padding": "same"}),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_convolution_of_images(weight, image, options, bias: bool) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(image), torch.randn(weight)] + [torch.randn(weight[0])] * bias
    assert kinds(lambda x, w, *b: F.conv2d(x, w, *b, **options), *inputs) == ["convolution"]


def test_convolution_of_signals() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(2, 6, 50), torch.randn(12, 6, 3), torch.randn(12)
    assert kinds(lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), *inputs) == ["convolution"]


def test_convolution_in_bfloat16() -> None:
    torch.manual_seed(0)
    inputs = [x.bfloat16() for x in (torch.randn(1, 5, 12, 12), torch.randn(16, 5, 3, 3), torch.randn(16))]
    found = kinds(lambda x, w, b: F.conv2d(x, w, b, padding=1), *inputs, tolerance=1e-2)
    assert found in (["convolution"], ["aten"])  # as the processor multiplies bf16 or not


def test_images_that_are_not_contiguous() -> None:
    torch.manual_seed(0)
    image, weight = torch.randn(2, 9, 20, 8)[:, ::2, 3:17].transpose(2, 3), torch.randn(10, 5, 3, 3)
    assert kinds(lambda x, w: F.conv2d(x, w, padding=1), image, weight) == ["convolution"]


def test_one_compile_for_all_sizes() -> None:
    npugraph.reset()
    convolution = torch.nn.Conv2d(3, 16, 3, stride=2, padding=1)
    compiled = compile_ex(convolution, dynamic=True)
    with torch.no_grad():
        for batch, height, width in ((2, 20, 30), (3, 31, 17), (5, 64, 64)):
            x = torch.randn(batch, 3, height, width)
            torch.testing.assert_close(compiled(x), convolution(x), rtol=1e-4, atol=1e-4)
    (artifact,) = npugraph.artifacts()
    assert [task.kind for task in artifact.tasks] == ["convolution"]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: F.conv_transpose2d(x, torch.ones(16, 16, 3, 3, dtype=x.dtype)),
        lambda x: F.conv2d(x, torch.ones(16, 1, 3, 3, dtype=x.dtype), groups=16),
        lambda x: F.conv2d(x.double(), torch.ones(16, 16, 3, 3, dtype=torch.float64)),
        lambda x: F.conv2d(x, torch.ones(16, 3, 3, 16, dtype=x.dtype).permute(0, 3, 1, 2)),
        lambda x: F.conv3d(x[:, :, None], torch.ones(16, 16, 1, 3, 3, dtype=x.dtype)),
    ],
    ids=["transposed", "depthwise", "float64", "weights in channels_last", "three dimensions"],
)
def test_what_is_left_to_aten(fn) -> None:
    assert "convolution" not in kinds(fn, torch.randn(1, 16, 8, 8))
