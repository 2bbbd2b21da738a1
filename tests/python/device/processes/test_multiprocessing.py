# SPDX-License-Identifier: Apache-2.0
"""Tensors of npu that are sent between processes: both sides have the same memory."""

from __future__ import annotations

import base64
import pickle

import torch
import torch.multiprocessing as mp
import torch_npu
from torch.multiprocessing.reductions import reduce_tensor

from tests.python.forks import run_python


def _add(tasks: mp.Queue, answers: mp.Queue) -> None:
    x, view, parameter, event = tasks.get()
    event.wait()
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    x.add_(1)
    made = torch.arange(3.0, device="npu:1")
    facts = (str(x.device), x.dtype, view.stride(), type(parameter).__name__, parameter.requires_grad)
    answers.put((facts, torch_npu.get_npu_format(x), made))
    tasks.get()  # keeps this process alive until the other one has the tensor


def test_a_queue_shares_memory():
    context = mp.get_context("spawn")
    tasks, answers = context.Queue(), context.Queue()
    x = torch.zeros(2, 3, device="npu:1")
    torch.npu.config.allow_internal_format = True
    torch_npu.npu_format_cast_(x, 29)
    torch.npu.config.allow_internal_format = False
    allocated = torch.npu.memory_allocated(1)
    parameter = torch.nn.Parameter(torch.ones(2, device="npu"))
    process = context.Process(target=_add, args=(tasks, answers))
    process.start()
    tasks.put((x, x.t()[1:], parameter, torch.npu.Event(interprocess=True)))
    facts, tag, made = answers.get(timeout=120)
    assert facts == ("npu:1", torch.float32, (1, 3), "Parameter", True) and tag == 29
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]  # the other process wrote this
    assert made.tolist() == [0, 1, 2] and made.device == torch.device("npu:1")
    tasks.put(None)
    process.join(120)
    assert process.exitcode == 0 and made.tolist() == [0, 1, 2]
    del made
    assert torch.npu.memory_allocated(1) == allocated


def test_what_is_sent_can_be_kept_as_bytes():
    x = torch.arange(4.0, device="npu")
    function, arguments = reduce_tensor(x[1:])
    text = base64.b64encode(pickle.dumps(arguments)).decode()
    code = f"""
import base64, pickle, torch, torch_npu
from torch_npu.multiprocessing.reductions import rebuild_npu_tensor
x = rebuild_npu_tensor(*pickle.loads(base64.b64decode({text!r})))
assert x.tolist() == [1, 2, 3] and x.device == torch.device("npu:0")
x.mul_(10)
"""
    assert function is torch_npu.multiprocessing.reductions.rebuild_npu_tensor
    run_python("-c", code, check=True)
    assert x.tolist() == [0, 10, 20, 30]


def test_in_its_own_process_a_tensor_comes_back_over_its_memory():
    x = torch.arange(4.0, device="npu")
    function, arguments = reduce_tensor(x)
    address = x.data_ptr()
    y = function(*arguments)
    assert y.data_ptr() == address and y.untyped_storage()._cdata == x.untyped_storage()._cdata
    y.add_(1)
    assert x.tolist() == [1, 2, 3, 4] and (x + 1).tolist() == [2, 3, 4, 5]


def test_tensors_without_elements():
    function, arguments = reduce_tensor(torch.empty(0, 3, device="npu", dtype=torch.int32))
    empty = function(*arguments)
    assert empty.shape == (0, 3) and empty.dtype == torch.int32 and empty.device.type == "npu"


def test_a_tensor_inside_of_a_graph_of_gradients_is_refused():
    x = torch.ones(2, device="npu", requires_grad=True) * 2
    try:
        reduce_tensor(x)
    except RuntimeError as error:
        assert "send tensor.detach()" in str(error)
    else:
        raise AssertionError("it was sent")
    assert reduce_tensor(torch.ones(2))[0].__name__ == "rebuild_tensor"
