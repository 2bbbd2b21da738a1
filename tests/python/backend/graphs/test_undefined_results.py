# SPDX-License-Identifier: Apache-2.0
"""Operators that return undefined tensors, which Python sees as None, even if fake tensors promise a tensor."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from tests.python.backend.checks import assert_same, check_captured, compile_ex

aten = torch.ops.aten


def masks(count: int) -> list[list[bool]]:
    return [list(mask) for mask in itertools.product([False, True], repeat=count) if any(mask)]


def convolution(x: torch.Tensor, w: torch.Tensor, mask: list[bool]) -> Any:
    grad = torch.ones(2, 4, 4, 4)
    return aten.convolution_backward(grad, x, w, [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, mask)


def layer_norm(x: torch.Tensor, w: torch.Tensor, mask: list[bool]) -> Any:
    _, mean, rstd = aten.native_layer_norm(x, [6], w[0, 0, 0].new_ones(6), None, 1e-5)
    return aten.native_layer_norm_backward(x * 2, x, [6], mean, rstd, torch.ones(6), torch.ones(6), mask)


def group_norm(x: torch.Tensor, w: torch.Tensor, mask: list[bool]) -> Any:
    _, mean, rstd = aten.native_group_norm(x, None, None, 2, 2, 36, 1, 1e-5)
    return aten.native_group_norm_backward(x * 2, x, mean, rstd, torch.ones(2), 2, 2, 36, 1, mask)


def batch_norm(x: torch.Tensor, w: torch.Tensor, mask: list[bool]) -> Any:
    ones = torch.ones(2)
    return aten.native_batch_norm_backward(x * 2, x, ones, ones, ones, ones, ones, True, 1e-5, mask)


def batch_norm_reserved(x: torch.Tensor, w: torch.Tensor, mask: list[bool]) -> Any:
    ones = torch.ones(2)
    reserve = torch.empty(0, dtype=torch.uint8)
    return aten.batch_norm_backward(x * 2, x, ones, ones, ones, ones, ones, True, 1e-5, mask, reserve)


def slow_convolution(x: torch.Tensor, w: torch.Tensor, mask: list[bool]) -> Any:
    return aten._slow_conv2d_backward.output_mask(torch.ones(2, 4, 4, 4), x, w, [3, 3], [1, 1], [0, 0], mask)


def samples_of_planes(x: torch.Tensor, w: torch.Tensor, mask: list[bool]) -> Any:
    grid = torch.linspace(-1, 1, 64).view(2, 4, 4, 2)
    return aten.grid_sampler_2d_backward(torch.ones(2, 2, 4, 4), x, grid, 0, 0, False, mask)


def samples_of_volumes(x: torch.Tensor, w: torch.Tensor, mask: list[bool]) -> Any:
    grid = torch.linspace(-1, 1, 96).view(2, 1, 4, 4, 3)
    return aten.grid_sampler_3d_backward(torch.ones(2, 2, 1, 4, 4), x[:, :, None], grid, 0, 0, False, mask)


# By operator: a call of it, and the length of its mask, which is the number of its results.
MASKED: dict[str, tuple[Callable[..., Any], int]] = {
    "_slow_conv2d_backward": (slow_convolution, 3),
    "batch_norm_backward": (batch_norm_reserved, 3),
    "convolution_backward": (convolution, 3),
    "grid_sampler_2d_backward": (samples_of_planes, 2),
    "grid_sampler_3d_backward": (samples_of_volumes, 2),
    "native_batch_norm_backward": (batch_norm, 3),
    "native_group_norm_backward": (group_norm, 3),
    "native_layer_norm_backward": (layer_norm, 3),
}


def test_all_operators_with_a_mask_are_tried() -> None:
    """Checks that MASKED has every operator with a mask that has a kernel for the CPU or for all devices. It leaves out
    operators that are meant to be overridden by other devices, because they only raise."""

    def runs(schema: torch.FunctionSchema) -> bool:
        name = f"{schema.name}.{schema.overload_name}".rstrip(".")
        keys = ("CPU", "CompositeExplicitAutograd")
        return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)

    found = {
        schema.name.removeprefix("aten::")
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::") and not schema.overload_name.endswith("out")
        if any("mask" in argument.name and str(argument.type) == "List[bool]" for argument in schema.arguments)
        if "overrideable" not in schema.name and runs(schema)
    }
    assert found == MASKED.keys()


@pytest.mark.parametrize(
    ("operator", "mask"), [(operator, mask) for operator, count in MASKED.values() for mask in masks(count)]
)
def test_results_that_are_masked_out(operator: Callable[..., Any], mask: list[bool]) -> None:
    def read(x, w):
        results = operator(x, w, mask)
        return [result + 1 for result, wanted in zip(results, mask, strict=True) if wanted]

    def returned(x, w):
        return [r if wanted else None for r, wanted in zip(operator(x, w, mask), mask, strict=True)]

    with torch.no_grad():
        for fn in (read, returned):
            check_captured(fn, lambda: (torch.randn(2, 2, 6, 6), torch.randn(4, 2, 3, 3)), exact=False)
            torch._dynamo.reset()


def test_undefined_results_reach_the_caller_as_none() -> None:
    """Fake tensors promise a tensor for the first result."""

    def fn(x):
        return batch_norm(x, x, [False, True, False])

    with torch.no_grad():
        for options in ({}, {"clone_output": False}):
            compiled = compile_ex(fn, options=options)
            for _ in range(3):
                x = torch.randn(2, 2, 6, 6)
                got, want = compiled(x), fn(x)
                assert got[0] is None and want[0] is None
                torch.testing.assert_close(got[1], want[1])
            torch._dynamo.reset()


@pytest.fixture
def recurrent_layers() -> Iterator[None]:
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


@pytest.mark.parametrize("features", [{}, {"bidirectional": True, "num_layers": 2}, {"bias": False}, {"proj_size": 3}])
@pytest.mark.parametrize("given", [False, True])
def test_lstm_layers_are_captured_whole(recurrent_layers: None, features: dict[str, Any], given: bool) -> None:
    model = nn.LSTM(4, 5, batch_first=True, **features).eval()
    layers = features.get("num_layers", 1) * (2 if features.get("bidirectional") else 1)

    def make() -> tuple[Any, ...]:
        state = (torch.randn(layers, 2, features.get("proj_size", 5)), torch.randn(layers, 2, 5))
        return (torch.randn(2, 6, 4), state) if given else (torch.randn(2, 6, 4),)

    with torch.no_grad():
        check_captured(lambda *args: model(*args), make, make, exact=False)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_in_training(recurrent_layers: None, kind: type[nn.Module]) -> None:
    model = kind(4, 5, batch_first=True)
    compiled = compile_ex(lambda x: model(x)[0])
    x = torch.randn(2, 6, 4)
    for _ in range(2):
        got = torch.autograd.grad(compiled(x).square().sum(), list(model.parameters()))
        want = torch.autograd.grad(model(x)[0].square().sum(), list(model.parameters()))
        assert_same(got, want, exact=False)


def test_training_of_a_batch_norm_whose_input_needs_no_gradient() -> None:
    """Its backward leaves the gradient of the input undefined."""
    model, other = (nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 2, 3)) for _ in range(2))
    other.load_state_dict(model.state_dict())
    compiled = compile_ex(model)
    for _ in range(2):
        x = torch.randn(2, 3, 6, 6)
        compiled(x).sin().sum().backward()
        other(x).sin().sum().backward()
    assert_same([p.grad for p in model.parameters()], [p.grad for p in other.parameters()], exact=False)
    assert_same(list(model.buffers()), list(other.buffers()), exact=False)


def test_attention_that_gives_no_weights() -> None:
    w, b = torch.randn(24, 8), torch.randn(24)
    out, bias = torch.randn(8, 8), torch.randn(8)

    def fn(x):
        return torch._native_multi_head_attention(x, x, x, 8, 2, w, b, out, bias, need_weights=False)

    with torch.no_grad():
        check_captured(fn, lambda: (torch.randn(2, 5, 8),), exact=False)
