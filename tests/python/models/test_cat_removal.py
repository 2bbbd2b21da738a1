# SPDX-License-Identifier: Apache-2.0
"""Concatenations whose parts are computed in place give eager's bits, and count only the bytes that they still copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.python.models import model_measurements as m

Tensors = tuple[torch.Tensor, ...]


def check(
    function: Callable[..., Any],
    *inputs: torch.Tensor,
    copied: int | None = None,
    exact: bool = True,
    **arguments: Any,
) -> Any:
    """Compares the results and strides of two calls with eager, bit for bit if ``exact``. ``copied`` is the number of
    bytes that a replay must copy. By default no code is generated: generated code writes a concatenation as a whole,
    and only torch's operators and precompiled kernels compute its parts in place."""
    m.reset()
    options = {"generate_code": False} if m.BACKEND == m.OURS else None
    compiled = torch.compile(
        function, backend=m.BACKEND, fullgraph=True, **{"dynamic": False, "options": options} | arguments
    )
    for _ in range(2):
        expected = function(*[tensor.clone() for tensor in inputs])
        actual = compiled(*[tensor.clone() for tensor in inputs])
        for ours, eager in zip(as_tuple(actual), as_tuple(expected), strict=True):
            torch.testing.assert_close(ours, eager, **{"rtol": 0, "atol": 0} if exact else {})
            assert ours.stride() == eager.stride()
    for artifact in m.artifacts():
        if copied is not None:
            assert artifact.memory["copied_bytes_per_replay"] == copied, artifact.program()
    return compiled


def as_tuple(value: Any) -> Tensors:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.feature("2.09")
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("size", [3, 64])
def test_every_dimension(dim: int, size: int) -> None:
    """Small tensors are computed by kernels, large ones by torch's own operators."""
    x, y = torch.randn(2, 3, size, 5, 67).unbind()
    check(lambda x, y: torch.cat([-x, x * y, x.abs()], dim), x, y, copied=0)


def test_parts_that_are_copied() -> None:
    x, y = torch.randn(2, 4, 8).unbind()
    check(lambda x, y: torch.cat([-x, y, x + y], 1), x, y, copied=4 * 8 * 4)
    check(lambda x, y: torch.cat([x, y], 1), x, y, copied=2 * 4 * 8 * 4)


def test_strided_parts() -> None:
    x = torch.randn(2, 6, 4, 8)
    check(lambda x: torch.cat([(-x).transpose(1, 2), x.transpose(1, 2).abs()], 2), x, copied=0)
    check(lambda x: torch.cat([(-x)[:, 1:3], x[:, ::2].relu()], 1), x)
    check(lambda x: torch.cat([(-x).view(2, 24, 8), x.flatten(1, 2)], 2), x)
    check(lambda x: torch.cat([(x[:, :1] * 2).expand(2, 6, 4, 8), -x], 3), x)


def test_channels_last() -> None:
    x = torch.randn(2, 6, 5, 5).to(memory_format=torch.channels_last)
    check(lambda x: torch.cat([-x, x + 1], 1), x)


def test_parts_used_elsewhere() -> None:
    def function(x: torch.Tensor) -> Tensors:
        shared = -x
        read_before = x * 2
        total = read_before.sum()
        whole = torch.cat([shared, read_before, x + 1], 1)
        return whole, shared * 3, total

    check(function, torch.randn(4, 8), copied=4 * 8 * 4 + 4 * 8 * 4)


def test_a_part_that_is_returned_is_never_overwritten() -> None:
    def function(x: torch.Tensor) -> Tensors:
        part = -x
        other = x.abs()
        return torch.cat([part, other]), part

    compiled = check(function, torch.randn(4, 8))
    x = torch.randn(4, 8)
    first = compiled(x)
    kept = [tensor.clone() for tensor in first]
    compiled(x + 1)
    assert all(torch.equal(a, b) for a, b in zip(first, kept, strict=True))


def test_updates_of_parts_and_of_the_whole() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        part = -x
        part.mul_(y)
        whole = torch.cat([part, x + y], 1)
        whole[:, 2:5].add_(1)
        return whole.relu_()

    check(function, *torch.randn(2, 4, 8).unbind())

    def late_write(x: torch.Tensor) -> Tensors:
        part = -x
        whole = torch.cat([part, x], 1)
        part.add_(1)
        return whole, part * 2

    check(late_write, torch.randn(4, 8))


def test_nested_and_repeated() -> None:
    x, y = torch.randn(2, 4, 8).unbind()
    check(lambda x, y: torch.cat([torch.cat([-x, x * y], 1), x - y], 1), x, y, copied=0)
    check(lambda x, y: torch.cat([torch.cat([x, y], 1), x - y], 1), x, y)
    check(lambda x, y: torch.cat([x * y] * 3, 1), x, y, copied=0)
    check(lambda x, y: torch.cat([(x * y).exp()] * 2, 1), x, y, exact=False)
    check(lambda x, y: torch.stack([x * y, x + y, x], 1), x, y, copied=4 * 8 * 4)


@pytest.mark.parametrize(
    "name", ["sigmoid", "silu", "gelu", "tanh", "cos", "exp", "softmax", "log_softmax", "mm", "linear"]
)
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("generate", [False, True])
def test_operators_that_see_their_layout(name: str, dim: int, generate: bool) -> None:
    """Torch's own operators can give other bits if their results are in other places."""
    x, y = torch.randn(2, 33, 33).unbind()
    functions: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "silu": torch.nn.functional.silu,
        "gelu": torch.nn.functional.gelu,
        "softmax": lambda t: t.softmax(-1),
        "log_softmax": lambda t: t.log_softmax(-1),
        "mm": lambda t: t.double() @ y.double(),
        "linear": lambda t: torch.nn.functional.linear(t.double(), y.double(), y.double()[0]),
    }
    function = functions.get(name) or getattr(torch, name)
    options = {"generate_code": generate} if m.BACKEND == m.OURS else None
    check(lambda x: torch.cat([function(x), function(x + 1)], dim), x, exact=not generate, options=options)


def test_rotary_embedding() -> None:
    def function(x: torch.Tensor, frequencies: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        angles = position[:, :, None].float() * frequencies
        table = torch.cat([angles, angles], -1)
        first, second = x.chunk(2, -1)
        return x * table.cos()[:, None] + torch.cat([-second, first], -1) * table.sin()[:, None]

    x = torch.randn(1, 4, 3, 16).transpose(1, 2)
    check(function, x.contiguous().transpose(1, 2), torch.rand(8), torch.tensor([[3, 4, 5]]), copied=0, exact=False)
    check(function, x.contiguous(), torch.rand(8), torch.tensor([[3, 4, 5, 6]]), copied=0)


def test_empty_parts_and_other_types() -> None:
    x = torch.randn(4, 8)
    check(lambda x: torch.cat([-x[:0], x * 2, x[4:]]), x)
    check(lambda x: torch.cat([torch.empty(0), -x]), x)
    check(lambda x: torch.cat([-x, (x > 0).long()]), x)
    check(lambda x: torch.cat([(x > 0), x < 1]), x)
    check(lambda x: torch.cat([-x.half(), x.half() * 2], 1), x)
    check(lambda x: torch.cat([-x.to(torch.complex64), x.to(torch.complex64) * 2], 1), x)


def test_dynamic_sizes() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([-x, y, (x + 1).relu()], 1) * 2

    m.reset()
    compiled = torch.compile(function, backend=m.BACKEND, dynamic=True)
    for rows, columns in ((2, 3), (5, 7), (1, 4), (300, 200)):
        x, y = torch.randn(rows, columns), torch.randn(rows, 2 * columns)
        assert torch.equal(compiled(x, y), function(x, y))


def test_sizes_that_data_defines() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        part = -x
        chosen = x[x > 0]
        return torch.cat([part, chosen, chosen * 2])

    m.reset()
    compiled = torch.compile(function, backend=m.BACKEND)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for _ in range(3):
            x = torch.randn(40)
            assert torch.equal(compiled(x), function(x))
