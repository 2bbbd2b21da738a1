# SPDX-License-Identifier: Apache-2.0
"""Kernels of users' libraries as tasks. The library is tests/unit/core/libraries/sample_kernels.cc."""

from __future__ import annotations

import pytest
import torch

import npugraph
from tests.python.backend.checks import check_captured, compile_ex, task_names
from tests.python.sample_kernels import FOLDER


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def kinds(artifact: npugraph.Artifact) -> list[str]:
    return [task.kind for task in artifact.tasks]


def vector():
    return (torch.randn(6),)


def test_operators_run_in_eager_mode() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.ops.test_ops.scaled_add(x, x.t().contiguous().t(), 2.0).equal(3 * x)
    assert torch.ops.test_ops.reversed(x).tolist() == [[5, 4, 3], [2, 1, 0]]
    torch.ops.test_ops.scale_(x[:, 1:], 3)
    assert x.tolist() == [[0, 3, 6], [3, 12, 15]]
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"test_ops::fails_inside: no element of x fits \(the kernel is in "):
            torch.ops.test_ops.fails_inside(x)


@pytest.mark.feature("7.04")
def test_an_eager_call_needs_a_meta_function() -> None:
    with pytest.raises(NotImplementedError, match=r'register_fake\("test_ops::strides"\)\n    def _\(x\):'):
        torch.ops.test_ops.strides(torch.ones(2, 3))


def test_an_operator_of_another_schema_is_refused() -> None:
    with pytest.raises(ValueError, match="npugraph has this operator itself"):
        npugraph.load_library(FOLDER / "libown_kernels.so")


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
