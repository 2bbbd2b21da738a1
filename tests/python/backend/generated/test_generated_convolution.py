# SPDX-License-Identifier: Apache-2.0
"""Convolutions as generated code, against eager mode."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

import npugraph
from tests.python.backend.checks import compile_ex


def kinds(fn, *inputs: torch.Tensor, tolerance: float = 1e-5, **arguments) -> list[str]:
    """Compares the result with float64, and returns the kinds of the tasks."""
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


@pytest.mark.parametrize(
    ("weight", "image", "options"),
    [
        ((16, 1, 3, 3), (1, 16, 15, 14), {"padding": 1}),
        ((12, 1, 7, 7), (2, 12, 14, 14), {"padding": 3}),
        ((8, 1, 3, 3), (1, 8, 29, 31), {"padding": 1, "stride": 2}),
        ((8, 1, 5, 3), (2, 4, 20, 9), {"padding": (4, 2), "dilation": 2, "stride": (1, 3)}),
        ((8, 4, 3, 3), (1, 16, 12, 12), {"padding": 1}),
        ((3, 20, 1, 1), (1, 20, 9, 9), {}),
    ],
)
@pytest.mark.parametrize("channels_last", [False, True])
def test_convolution_of_few_channels_to_a_group(weight, image, options, channels_last: bool) -> None:
    torch.manual_seed(0)
    x, w, b = torch.randn(image), torch.randn(weight), torch.randn(weight[0])
    if channels_last:
        x = x.to(memory_format=torch.channels_last)
    options["groups"] = image[1] // weight[1]
    found = kinds(lambda x, w, b: F.conv2d(x, w, b, **options), x, w, b)
    # The result of channels_last images is in channels_last too.
    generated = not channels_last or weight[:2] == (image[1], 1)
    is_small_product = channels_last and weight[2:] == (1, 1)
    assert found == ["convolution" if generated else "kernel" if is_small_product else "aten"]


def test_depthwise_convolution_of_signals() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(2, 6, 300), torch.randn(6, 1, 4), torch.randn(6)
    assert kinds(lambda x, w, b: F.conv1d(x, w, b, padding=3, groups=6), *inputs) == ["convolution"]


class Block(torch.nn.Module):
    """Convolution, norm, residual and activation."""

    def __init__(self, activation=F.relu, *, groups: int = 1, stride: int = 1, bias: bool = False) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(16, 16, 3, stride, 1, groups=groups, bias=bias)
        self.norm = torch.nn.BatchNorm2d(16)
        self.activation = activation
        torch.nn.init.normal_(self.norm.weight)
        torch.nn.init.normal_(self.norm.bias)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        y = self.norm(self.convolution(x))
        return self.activation(y if residual is None else y + residual)


ACTIVATIONS = {"relu": F.relu, "relu6": F.relu6, "silu": F.silu, "gelu": F.gelu, "hardswish": F.hardswish}


@pytest.mark.each_value
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("groups", "channels_last"), [(1, False), (16, False), (16, True)])
def test_norms_and_activations_behind_convolutions(activation: str, groups: int, channels_last: bool) -> None:
    torch.manual_seed(0)
    block = Block(ACTIVATIONS[activation], groups=groups).eval()
    twin = copy.deepcopy(block).double()
    x, residual = torch.randn(2, 16, 13, 15), torch.randn(2, 16, 13, 15)
    if channels_last:
        x, residual = (t.to(memory_format=torch.channels_last) for t in (x, residual))
    for inputs in ((x,), (x, residual)):
        npugraph.reset()
        with torch.no_grad():
            y, y64 = compile_ex(block)(*inputs), twin(*(t.double() for t in inputs))
        torch.testing.assert_close(y.double(), y64, rtol=1e-5, atol=1e-5)
        of_channels, task = npugraph.artifacts()[0].tasks
        assert (of_channels.kind, task.kind) == ("loop", "convolution")


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 3e-2), (torch.float16, 4e-3)])
@pytest.mark.parametrize("groups", [1, 16])
def test_blocks_in_half_precision(groups: int, dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    block = Block(groups=groups, stride=2, bias=True).eval().to(dtype)
    x = torch.randn(1, 16, 20, 20, dtype=dtype)
    npugraph.reset()
    with torch.no_grad():
        y, y64 = compile_ex(block)(x), copy.deepcopy(block).double()(x.double())
    torch.testing.assert_close(y.double(), y64, rtol=tolerance, atol=tolerance)
    assert "convolution" in [task.kind for task in npugraph.artifacts()[0].tasks]


@pytest.mark.parametrize("groups", [1, 16])
def test_blocks_of_any_size(groups: int) -> None:
    npugraph.reset()
    block = Block(groups=groups).eval()
    compiled = compile_ex(block, dynamic=True)
    with torch.no_grad():
        for shape in ((2, 16, 9, 12), (5, 16, 20, 7), (3, 16, 33, 40)):
            x, residual = torch.randn(shape), torch.randn(shape)
            torch.testing.assert_close(compiled(x, residual), block(x, residual), rtol=1e-4, atol=1e-4)
    (artifact,) = npugraph.artifacts()
    assert [task.kind for task in artifact.tasks] == ["loop", "convolution"]


def test_parameters_of_norms_are_read_at_every_call() -> None:
    block = Block(bias=True).eval()
    compiled, x = compile_ex(block), torch.randn(1, 16, 10, 10)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), block(x), rtol=1e-4, atol=1e-4)
            for tensor in (*block.parameters(), block.norm.running_mean, block.norm.running_var):
                tensor.mul_(1.5)


def test_norms_in_training_stay_apart() -> None:
    torch.manual_seed(0)
    block, twin = Block(), Block()
    twin.load_state_dict(block.state_dict())
    npugraph.reset()
    compiled, x = compile_ex(block), torch.randn(2, 16, 10, 10)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x), twin(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(block.norm.running_var, twin.norm.running_var)
    assert "convolution" in [task.name for task in npugraph.artifacts()[0].tasks]


def test_results_that_others_read_are_stored_once() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(1, 4, 12, 12), torch.randn(8, 4, 3, 3)

    def both(x, w):
        y = F.conv2d(x, w)
        return torch.cat([y, y.relu()])

    assert kinds(both, *inputs)[0] == "convolution"


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_images_that_no_cache_holds(stride: int) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(2, 20, 260, 251), torch.randn(12, 20, 3, 3), torch.randn(12)
    found = kinds(lambda x, w, b: F.conv2d(x, w, b, stride=stride, padding=1), *inputs)
    assert found == ["convolution"]


def test_images_of_one_pixel() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(3, 24, 1, 1), torch.randn(16, 24, 1, 1), torch.randn(16)
    assert kinds(lambda x, w, b: F.conv2d(x, w, b).sigmoid() * 2, *inputs) == ["convolution"]


def test_convolution_of_signals() -> None:
    torch.manual_seed(0)
    inputs = torch.randn(2, 6, 50), torch.randn(12, 6, 3), torch.randn(12)
    assert kinds(lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), *inputs) == ["convolution"]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 1e-2), (torch.float16, 2e-3)])
@pytest.mark.parametrize(("size", "out"), [(12, 16), (40, 70), (12, 5)])
def test_convolution_in_half_precision(size: int, out: int, dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    inputs = [x.to(dtype) for x in (torch.randn(1, 5, size, size), torch.randn(out, 5, 3, 3), torch.randn(out))]
    found = kinds(lambda x, w, b: F.conv2d(x, w, b, padding=1), *inputs, tolerance=tolerance)
    assert found == ["convolution"]


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


PIXELS = {
    "alone": lambda x, w, b, r: F.conv2d(x, w),
    "bias": lambda x, w, b, r: F.conv2d(x, w, b),
    "bias and activation": lambda x, w, b, r: F.silu(F.conv2d(x, w, b)),
    "residual": lambda x, w, b, r: F.conv2d(x, w, b).relu() + r,
    "scaled channels": lambda x, w, b, r: F.conv2d(x, w) * b[:, None, None] + r,
    "between": lambda x, w, b, r: F.conv2d(x.sigmoid(), w, b).sigmoid() * r,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PIXELS)
def test_convolutions_of_single_pixels_in_channels_last_are_products(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, r = (torch.randn(2, c, 7, 5).to(dtype).to(memory_format=torch.channels_last) for c in (24, 33))
    w, b = torch.randn(33, 24, 1, 1).to(dtype) / 5, torch.randn(33).to(dtype)
    tolerance = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}[dtype]
    found = kinds(PIXELS[name], x, w, b, r, tolerance=tolerance)
    assert found[-1] == "matmul" and len(found) == 1 + (name == "between"), found


def test_convolutions_of_single_pixels_of_any_size() -> None:
    npugraph.reset()
    compiled = compile_ex(lambda x, w, b: F.conv2d(x, w, b).relu(), dynamic=True)
    w, b = torch.randn(33, 24, 1, 1) / 5, torch.randn(33)
    with torch.no_grad():
        for shape in ((2, 24, 9, 12), (5, 24, 20, 7), (3, 24, 3, 40)):
            x = torch.randn(shape).to(memory_format=torch.channels_last)
            want = F.conv2d(x, w, b).relu()
            torch.testing.assert_close(compiled(x, w, b), want, rtol=1e-4, atol=1e-4)
            assert compiled(x, w, b).stride() == want.stride()
    (artifact,) = npugraph.artifacts()
    assert [task.kind for task in artifact.tasks] == ["matmul"]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: F.conv_transpose2d(x, torch.ones(16, 16, 3, 3, dtype=x.dtype)),
        lambda x: F.conv2d(x, torch.ones(4, 16, 8, 9, dtype=x.dtype), padding=4),
        lambda x: F.conv2d(x.double(), torch.ones(16, 16, 3, 3, dtype=torch.float64)),
        lambda x: F.conv2d(x, torch.ones(16, 3, 3, 16, dtype=x.dtype).permute(0, 3, 1, 2)),
        lambda x: F.conv3d(x[:, :, None], torch.ones(16, 16, 1, 3, 3, dtype=x.dtype)),
    ],
    ids=["transposed", "few channels and many taps", "float64", "weights in channels_last", "three dimensions"],
)
def test_what_is_left_to_aten(fn) -> None:
    assert "convolution" not in kinds(fn, torch.randn(1, 16, 8, 8))
