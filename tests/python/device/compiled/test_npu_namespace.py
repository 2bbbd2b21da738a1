# SPDX-License-Identifier: Apache-2.0
"""Operators that users add to the namespace ``npu`` itself, as scripts for Ascend do, with both forms of step 5."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import npugraph
import torchair

MODES = ["npugraph_ex", "reduce-overhead", "max-autotune"]
ops = torch.ops.npu


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture(autouse=True, scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """``user_axpy`` is functional. ``user_axpy_`` is written by hand as that and a copy, and ``user_scale_`` is made
    functional by torch."""
    with (
        torch.library._scoped_library("npu", "FRAGMENT") as schemas,
        torch.library._scoped_library("npu", "IMPL", "Meta") as meta,
        torch.library._scoped_library("npu", "IMPL", "PrivateUse1") as kernels,
        torch.library._scoped_library("npu", "IMPL", "Functionalize") as functional,
    ):
        schemas.define("user_axpy(Tensor x, Tensor y, float alpha) -> Tensor")
        schemas.define("user_axpy_(Tensor(a!) x, Tensor y, float alpha) -> ()")
        schemas.define("user_scale_(Tensor(a!) x, float alpha) -> ()")
        torch.library.impl(meta, "user_axpy")(lambda x, y, alpha: torch.empty_like(x))
        torch.library.impl(meta, "user_axpy_")(lambda x, y, alpha: None)
        torch.library.impl(meta, "user_scale_")(lambda x, alpha: None)
        torch.library.impl(kernels, "user_axpy")(lambda x, y, alpha: x + alpha * y)
        torch.library.impl(kernels, "user_axpy_")(add_)
        torch.library.impl(kernels, "user_scale_")(scale_)
        torch.library.impl(functional, "user_axpy_")(by_twin)
        register_prototypes(tmp_path_factory.mktemp("prototypes"))
        yield


def add_(x: torch.Tensor, y: torch.Tensor, alpha: float) -> None:
    x.add_(y, alpha=alpha)


def scale_(x: torch.Tensor, alpha: float) -> None:
    x.mul_(alpha)


def by_twin(x: torch.Tensor, y: torch.Tensor, alpha: float) -> None:
    x.copy_(ops.user_axpy(x, y, alpha))


def register_prototypes(folder: Path) -> None:
    def operator(name: str, inputs: list[str], output: str) -> dict[str, Any]:
        tensors = [{"name": x, "param_type": "required", "type": ["float"]} for x in inputs]
        alpha = {"name": "alpha", "param_type": "required", "type": "float"}
        return {"op": name, "input_desc": tensors, "output_desc": [{**tensors[0], "name": output}], "attr": [alpha]}

    file = folder / "user.json"
    file.write_text(json.dumps([operator("UserAxpy", ["x", "y"], "z"), operator("UserScale", ["x"], "x")]))
    npugraph.register_prototypes(file)


def compiled(function: Callable[..., Any], mode: str) -> Callable[..., Any]:
    torch._dynamo.reset()
    config = torchair.CompilerConfig()
    config.mode = mode
    backend = mode if mode == "npugraph_ex" else torchair.get_npu_backend(compiler_config=config)
    return torch.compile(function, backend=backend, fullgraph=True)


def functional(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ops.user_axpy(x * 2, y, 0.5) + 1


def input_is_written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    ops.user_axpy_(x, y, 0.5)
    ops.user_scale_(y, 3.0)
    return x + y


def temporary_is_written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = x * 2
    ops.user_axpy_(z, y, 0.5)
    ops.user_scale_(z, 3.0)
    return z + y


@pytest.mark.feature("7.01", "7.04", "7.05")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", [functional, input_is_written, temporary_is_written])
def test_results_and_writes_are_those_of_eager_mode(function: Callable[..., Any], mode: str) -> None:
    npugraph.reset()
    fast = compiled(function, mode)
    for _ in range(3):
        x, y = torch.randn(4, 8), torch.randn(4, 8)
        mine, theirs = ([x.to("npu"), y.to("npu")] for _ in range(2))
        torch.testing.assert_close(fast(*mine).cpu(), function(*theirs).cpu())
        for own, eager in zip(mine, theirs, strict=True):
            torch.testing.assert_close(own.cpu(), eager.cpu())
    (artifact,) = npugraph.artifacts()  # one graph: no operator runs between graphs
    assert artifact.counters["captures"] == 1
