# SPDX-License-Identifier: Apache-2.0
"""Generated copies between layouts give the same elements as eager, for any sizes and types."""

from __future__ import annotations

import pytest
import torch

import npugraph
from tests.python.backend.checks import compile_ex


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def kinds() -> set[str]:
    return {task.kind for artifact in npugraph.artifacts() for task in artifact.tasks}


def check(fn, *args, dynamic=False) -> None:
    got, eager = compile_ex(fn, dynamic=dynamic)(*args), fn(*args)
    assert (got.dtype, got.shape, got.stride()) == (eager.dtype, eager.shape, eager.stride())
    assert torch.equal(got, eager)
    assert kinds() == {"loop"}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("size", [(200, 300), (33, 1000), (2, 40, 31, 33), (3, 5, 64, 64)])
def test_transposed_copies_have_the_elements_of_eager(size, dynamic) -> None:
    x = torch.randn(size)
    check(lambda x: x.transpose(-1, -2).contiguous() * 2, x, dynamic=dynamic)
    check(lambda x: x.transpose(0, -1).contiguous() * 2, x, dynamic=dynamic)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int8, torch.bool])
def test_transposed_copies_of_other_types_are_generated(dtype) -> None:
    x = torch.randint(0, 2, (170, 190)).to(dtype)
    check(lambda x: x.t().contiguous() == 0, x)


def test_layouts_of_images() -> None:
    x = torch.randn(2, 48, 20, 21)
    check(lambda x: x.contiguous(memory_format=torch.channels_last) + 1, x)
    check(lambda x: x.contiguous() + 1, x.to(memory_format=torch.channels_last))
    check(lambda x: x.permute(0, 2, 3, 1).contiguous() + torch.arange(48.0), x)


def test_with_other_operands() -> None:
    x, y, row = torch.randn(130, 150), torch.randn(150, 130), torch.randn(150, 1)
    check(lambda x, y, row: (y + row) * x.t() - 1, x, y, row)
    check(lambda x, y: (x.t() + x.t()[:, :130] * y).abs(), torch.randn(130, 150), y)
