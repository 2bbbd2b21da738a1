# SPDX-License-Identifier: Apache-2.0
"""Graphs of GE whose tensors are on several devices: results are where eager mode has them."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu  # noqa: F401

import torchair
from torchair.core._torchair import GetSocName
from torchair.llm_datadist import create_npu_tensors

X = torch.tensor([1.0, 2.0, 3.0, 4.0])
STRICT = torchair.CompilerConfig()
STRICT.debug.missing_converters = "error"


def check(function: Callable[..., Any], *inputs: torch.Tensor, config: torchair.CompilerConfig | None = None) -> None:
    """Compares two calls with eager mode: results, the inputs that are written, and their devices."""
    torch._dynamo.reset()
    fast = torch.compile(function, backend=torchair.get_npu_backend(config))
    theirs = [one.clone() for one in inputs]
    with torch.no_grad():
        for _ in range(2):
            found, expected = fast(*inputs), function(*theirs)
            for one, other in zip((*found, *inputs), (*expected, *theirs), strict=True):
                assert one.device == other.device
                torch.testing.assert_close(one.cpu(), other.cpu())


def test_results_on_the_host() -> None:
    check(lambda x: (x.cpu() + 1, torch.arange(4), x.sum().cpu(), torch.ones(())), X.npu())


def test_tensors_that_move_to_npu() -> None:
    check(lambda x: (x.to("npu") * 2, x + 1), X)


def test_tensors_that_move_back_and_forth() -> None:
    check(lambda x: ((x.cpu() * 2).to(x.device) + x, (x + 1).cpu()), X.npu())


def test_tensors_of_several_devices() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x * 2, y + 1, y[1:], x.to(y.device) + y, torch.ones(3, device=y.device), y

    check(function, X.npu(), X.to("npu:1"))


def test_written_inputs_of_several_devices() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, total: torch.Tensor) -> Any:
        x.add_(1)
        y.copy_(x)
        total.add_(x.sum().cpu())
        return (x * total,)

    check(function, X.npu(), X.clone(), torch.tensor(1.0))


def test_new_tensors_are_in_a_graph_without_inputs() -> None:
    check(lambda: (torch.arange(4, device="npu") + 1,), config=STRICT)


@pytest.mark.parametrize("device", ["npu:0", "npu:1"])
def test_a_graph_is_for_the_device_of_its_inputs(device: str) -> None:
    """Scalars of the host are in it, too."""
    check(lambda x, s: (x * s + torch.tensor(0.5), x.sum().cpu() * x), X.to(device), torch.tensor(3.0), config=STRICT)


def test_a_model_on_another_device_than_the_current_one() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).to("npu:1").eval()
    assert torch.npu.current_device() == 0
    check(lambda x: (model(x),), X.to("npu:1"))
    x = X.to("npu:1").requires_grad_()
    fast = torch.compile(model, backend=torchair.get_npu_backend())
    fast(x).sum().backward()
    found, x.grad = x.grad, None
    model(x).sum().backward()
    assert found.device == x.device
    torch.testing.assert_close(found, x.grad)


def test_a_warning_says_what_is_on_the_wrong_device(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check(lambda x: (x.cpu() + 1,), X.npu())
    text = caplog.text
    assert "_to_copy.default" in text and "it makes a tensor on cpu in a graph for npu:0" in text


def test_the_engine_names_the_device() -> None:
    assert GetSocName() == torch.npu.get_device_name(0)


@pytest.mark.feature("5.14")
def test_tensors_over_memory_of_others() -> None:
    memory = [(ctypes.c_float * 12)(*range(12)) for _ in range(2)]
    tensors = create_npu_tensors([3, 4], torch.float32, [ctypes.addressof(block) for block in memory])
    assert [(t.device.type, t.dtype, t.shape) for t in tensors] == [("npu", torch.float32, (3, 4))] * 2
    torch.testing.assert_close(tensors[0].cpu(), torch.arange(12.0).reshape(3, 4))
    tensors[1].add_(tensors[0])
    memory[0][0] = 7.0
    torch.npu.synchronize()
    assert list(memory[1]) == [2.0 * index for index in range(12)]
    assert tensors[0][0, 0].item() == 7.0
    del tensors
    assert memory[0][1] == 1.0  # they did not own it


@pytest.mark.feature("5.14")
def test_tensors_over_memory_of_others_that_are_refused() -> None:
    for error, message, arguments in (
        (TypeError, "takes a torch.dtype, got 'float32'", ([2], "float32", [64])),
        (TypeError, "takes a list of ints as shape, got 2", (2, torch.int8, [64])),
        (TypeError, r"takes a list of ints as addresses, got \['x'\]", ([2], torch.int8, ["x"])),
        (ValueError, r"takes sizes of 0 or more, got \[-1, 2\]", ([-1, 2], torch.int8, [64])),
        (ValueError, "takes addresses of elements of 4 bytes, got 0x42 for torch.float32", ([2], torch.float32, [66])),
        (ValueError, "takes addresses of elements of 1 bytes, got 0x0", ([2], torch.int8, [0])),
    ):
        with pytest.raises(error, match=message):
            create_npu_tensors(*arguments)
    assert create_npu_tensors([0, 2], torch.int8, [64])[0].shape == (0, 2)
