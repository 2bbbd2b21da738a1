# SPDX-License-Identifier: Apache-2.0
"""Kernels of users' libraries as tasks. The library is tests/unit/libraries/sample_kernels.cc."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import npugraph
from tests.python.backend.checks import check_captured, compile_ex, task_names

FOLDER = Path(__file__).resolve().parents[4] / "build/release/test_libraries"
SCHEMAS = npugraph.load_library(FOLDER / "libsample_kernels.so")


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def scale_(x: torch.Tensor, factor: float) -> None:
    x.mul_(factor)


@pytest.fixture(autouse=True, scope="module")
def operators() -> Iterator[None]:
    """The operators of the library, with implementations for eager mode."""
    with torch.library._scoped_library("test_ops", "DEF") as library:
        for schema in SCHEMAS:
            library.define(schema.removeprefix("test_ops::"))
        eager = {
            "scaled_add": lambda x, y, scale: x + scale * y,
            "scale_": scale_,
            "reversed": lambda x: x.flip(tuple(range(x.dim()))).contiguous(),
            "fails_inside": lambda x: x.clone(),
        }
        for name, function in eager.items():
            library.impl(name, function, "CPU")
        for name in ("scaled_add", "reversed", "fails_inside"):
            torch.library.register_fake(f"test_ops::{name}", lambda x, *rest: x.new_empty(x.shape), lib=library)
        yield


def kinds(artifact: npugraph.Artifact) -> list[str]:
    return [task.kind for task in artifact.tasks]


def vector():
    return (torch.randn(6),)


def test_an_operator_with_a_kernel_is_a_task_without_the_dispatcher() -> None:
    def fn(x):
        return torch.ops.test_ops.scaled_add(x * 2, x, 0.5) + 1

    (artifact,) = check_captured(fn, vector)
    assert task_names(artifact)[1] == "test_ops.scaled_add"
    assert kinds(artifact)[1] == "kernel"
    assert artifact.memory["copied_bytes_per_replay"] == 0


def test_sizes_may_be_unknown() -> None:
    def fn(x):
        return torch.ops.test_ops.reversed(x * 2) + torch.ops.test_ops.scaled_add(x, x, 2.0)

    check_captured(fn, vector, lambda: (torch.randn(11),), dynamic=True)


def test_arguments_are_written_in_place() -> None:
    def fn(x):
        y = x * 2
        torch.ops.test_ops.scale_(y, 3.0)
        torch.ops.test_ops.scale_(x, 2.0)
        return y + x

    (artifact,) = check_captured(fn, vector)
    assert task_names(artifact).count("test_ops.scale_") == 2
    assert artifact.memory["copied_bytes_per_replay"] == 0


def test_what_a_kernel_takes_as_dense_is_copied_and_counted() -> None:
    def fn(x):
        torch.ops.test_ops.scale_(x[:, 1:], 3.0)
        return torch.ops.test_ops.reversed(x.t()) + 1

    (artifact,) = check_captured(fn, lambda: (torch.randn(4, 6),))
    assert artifact.memory["copied_bytes_per_replay"] > 0


def test_a_failure_of_a_kernel_names_the_operator_and_the_next_call_works() -> None:
    def fn(x):
        return torch.ops.test_ops.fails_inside(x * 2) + 1

    compiled = compile_ex(fn)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"no element of x fits(.|\n)*test_ops\.fails_inside"):
            compiled(torch.ones(3))
    assert compile_ex(lambda x: torch.ops.test_ops.reversed(x))(torch.arange(3.0)).tolist() == [2, 1, 0]


def test_a_file_that_is_no_library_is_named() -> None:
    with pytest.raises(ValueError, match=r"'/nowhere\.so' cannot be loaded"):
        npugraph.load_library("/nowhere.so")
    with pytest.raises(ValueError, match="does not export npugraph_library"):
        npugraph.load_library(FOLDER / "libno_kernels.so")
