# SPDX-License-Identifier: Apache-2.0
"""Extensions for torch that call kernels by ``EXEC_NPU_CMD``, on cpu."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.python.ascend_extension import ops
from tests.python.backend.checks import check_captured, task_names

exec_npu_cmd = torch.ops.npugraph.exec_npu_cmd


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def vector():
    return (torch.randn(6),)


def test_functions_run_kernels() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert ops.scaled_add(x, x, 2.0).equal(3 * x)
    assert ops.scaled_add(x.t(), x.t(), 2.0).equal(3 * x.t())
    assert ops.tripled(x).equal(3 * x)
    ops.scale_(x[:, 1:], 3)
    assert x.tolist() == [[0, 3, 6], [3, 12, 15]]


def test_arguments_of_all_types_reach_the_kernel() -> None:
    one, two = torch.ones(1), torch.full((1,), 2.0)
    rest = ([one, two], 4, [5, 6], 0.5, True, "text", torch.float32)
    total = 1 + 2 + 3 + 4 + 11 + 0.5 + 1 + 4 + 8  # 8: the number of float32
    assert [result.item() for result in ops.everything(one, two, *rest)] == [total, 9]
    assert ops.everything(one, None, *rest)[0].item() == total - 2


def test_calls_on_tensors_without_memory_do_nothing() -> None:
    x = torch.empty(2, 3, device="meta")
    assert ops.scaled_add(x, x, 2.0).shape == (2, 3)
    with FakeTensorMode():
        y = torch.empty(3)
        exec_npu_cmd("aclnnScaledAdd", [y, y, 2.0, y])


def test_tensors_that_need_gradients_are_accepted() -> None:
    with torch.enable_grad():
        x = torch.ones(3, requires_grad=True)
        assert ops.scaled_add(x, x, 1.0).tolist() == [2, 2, 2]


def test_an_error_of_the_kernel_names_its_operator() -> None:
    with pytest.raises(RuntimeError, match=r"test_ops::fails_inside: no element of x fits \(the kernel is in "):
        ops.fails_inside(torch.ones(6))


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("aclnnMissing", [1], r"operator NAMESPACE::missing, and no library that is loaded has it; npugraph.load_libr"),
        ("aclnnScaledAdd", [1, 2], "was given 2 arguments; the kernel of test_ops::scaled_add.* takes 4"),
        ("aclnnScaledAdd", [torch.ones(1), "y", 2.0, torch.ones(1)], "argument 'y' is str and must be Tensor"),
        ("aclnnScaledAdd", [torch.ones(1), torch.ones(1), 2.0, None], "argument 'result0' is NoneType and must be"),
    ],
)
def test_a_call_that_does_not_fit_says_so(name: str, arguments: list[object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        exec_npu_cmd(name, arguments)


@pytest.mark.feature("7.01")
def test_operators_of_an_extension_in_a_graph() -> None:
    def fn(x):
        y = ops.scaled_add(x * 2, x, 0.5) + 1
        ops.scale_(y, 2.0)
        return y

    (artifact,) = check_captured(fn, vector)
    assert {"test_ascend.scaled_add", "test_ascend.scale_"} <= set(task_names(artifact))
    assert artifact.memory["copied_bytes_per_replay"] == 0
