# SPDX-License-Identifier: Apache-2.0
"""The older form of step 5: an operator in place, a functional twin of it, and a kernel of the key Functionalize that
calls the twin and copies its results into what is written."""

from __future__ import annotations

import pytest
import torch

from tests.python.backend.checks import check_captured, task_names

library = torch.library.Library("hand_functionalised", "DEF")
ops = torch.ops.hand_functionalised


def twin(name: str, arguments: str, written: int) -> None:
    """Defines ``name_`` on ``written`` tensors that it writes, and ``name_functional``, which returns new ones."""
    letters = "abc"[:written]
    library.define(f"{name}_({', '.join(f'Tensor({x}!) {x}' for x in letters)}, {arguments}) -> ()")
    results = ", ".join(["Tensor"] * written)
    library.define(
        f"{name}_functional({', '.join(f'Tensor {x}' for x in letters)}, {arguments}) -> "
        + (results if written == 1 else f"({results})")
    )


twin("scale_add", "Tensor y, float scale", 1)
twin("sin_cos", "Tensor y", 2)


@torch.library.impl(library, "scale_add_", "CPU")
def scale_add_(a: torch.Tensor, y: torch.Tensor, scale: float) -> None:
    a.add_(y, alpha=scale)


@torch.library.impl(library, "scale_add_functional", "CPU")
def scale_add_functional(a: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
    return a + scale * y


@torch.library.impl(library, "scale_add_functional", "Meta")
def scale_add_meta(a: torch.Tensor, _y: torch.Tensor, _scale: float) -> torch.Tensor:
    return torch.empty_like(a)


@torch.library.impl(library, "scale_add_", "Functionalize")
def scale_add_by_twin(a: torch.Tensor, y: torch.Tensor, scale: float) -> None:
    a.copy_(ops.scale_add_functional(a, y, scale))


@torch.library.impl(library, "sin_cos_", "CPU")
def sin_cos_(a: torch.Tensor, b: torch.Tensor, y: torch.Tensor) -> None:
    a.copy_(y.sin())
    b.copy_(y.cos())


@torch.library.impl(library, "sin_cos_functional", "CPU")
def sin_cos_functional(_a: torch.Tensor, _b: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return y.sin(), y.cos()


@torch.library.impl(library, "sin_cos_functional", "Meta")
def sin_cos_meta(a: torch.Tensor, b: torch.Tensor, _y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(a), torch.empty_like(b)


@torch.library.impl(library, "sin_cos_", "Functionalize")
def sin_cos_by_twin(a: torch.Tensor, b: torch.Tensor, y: torch.Tensor) -> None:
    for written, result in zip((a, b), ops.sin_cos_functional(a, b, y), strict=True):
        written.copy_(result)


for name in ("scale_add_", "sin_cos_"):
    torch.library.impl(library, name, "Meta")(lambda *_: None)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(4, 8), torch.randn(4, 8)


@pytest.mark.feature("7.05")
def test_the_twin_is_in_the_graph_and_an_input_is_written() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ops.scale_add_(x, y, 0.5)
        return x * 2

    (artifact,) = check_captured(fn, inputs)
    assert any("scale_add_functional" in name for name in task_names(artifact))


@pytest.mark.feature("7.05")
def test_a_temporary_and_a_view_are_written() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x * 2
        ops.scale_add_(z[1:3], y[1:3], 0.5)
        return z + 1

    check_captured(fn, inputs)


@pytest.mark.feature("7.05")
def test_two_written_arguments() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        sine, cosine = torch.empty_like(x), torch.empty_like(x)
        ops.sin_cos_(sine, cosine, y)
        return sine * x + cosine

    check_captured(fn, inputs)
