# SPDX-License-Identifier: Apache-2.0
"""Calls that captures of graphs refuse in each mode, and the state after an error."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import partial

import pytest
import torch

from tests.python.device.captures import captured, numbers, same

_HOST_WAITS = {
    "item": lambda x, host: x.sum().item(),
    "synchronize": lambda x, host: torch.npu.synchronize(),
    "stream": lambda x, host: torch.npu.current_stream().synchronize(),
    "to_host": lambda x, host: x.cpu(),
    "to_unpinned": lambda x, host: host.copy_(x, non_blocking=True),
    "from_unpinned": lambda x, host: x.copy_(host, non_blocking=True),
    "new": lambda x, host: torch.tensor([1.0, 2.0], device="npu"),
    "blocking": lambda x, host: x.copy_(host.pin_memory()),
    "nonzero": lambda x, host: x.nonzero(),
    "mask": lambda x, host: x[x > 1],
    "equal": lambda x, host: torch.equal(x, x),
}


@pytest.mark.feature("3.11")
@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@pytest.mark.parametrize("action", _HOST_WAITS)
def test_the_host_cannot_wait_for_what_is_captured(action: str, mode: str):
    x, host = numbers(3), torch.zeros(3)
    message = "the host cannot wait for a stream that is being captured"
    with pytest.raises(RuntimeError, match=message):
        captured(lambda: _HOST_WAITS[action](x, host), capture_error_mode=mode)
    assert not torch.npu.is_current_stream_capturing()

    def fn() -> torch.Tensor:
        y = x + 1
        with pytest.raises(RuntimeError, match=message):
            _HOST_WAITS[action](x, host)
        return y * 2

    graph, y = captured(fn, capture_error_mode=mode)  # a capture goes on if the error is caught
    x.add_(1)
    graph.replay()
    assert same(y, (x + 1) * 2)


def error_in_a_capture(mode: str, act: Callable[[list[str]], None], in_thread: bool) -> str:
    """Runs ``act`` while a graph is captured, in this or in another thread, and returns the error that it notes. Checks
    that the graph is right even if ``act`` was refused."""
    x, graph = numbers(3), torch.npu.NPUGraph()
    errors: list[str] = []
    with torch.npu.stream(torch.npu.Stream()):
        graph.capture_begin(capture_error_mode=mode)
        y = x + 1
        if in_thread:
            thread = threading.Thread(target=act, args=(errors,))
            thread.start()
            thread.join()
        else:
            act(errors)
        assert torch.npu.is_current_stream_capturing()
        z = y * 2
        graph.capture_end()
        x.add_(1)
        graph.replay()
    assert same(y, x + 1) and same(z, (x + 1) * 2)
    return errors[0]


def waits(x: torch.Tensor, stream: torch.npu.Stream, errors: list[str]) -> None:
    with torch.npu.stream(stream):
        try:
            x.sum().item()
            errors.append("")
        except RuntimeError as error:
            errors.append(str(error))


@pytest.mark.feature("3.11")
@pytest.mark.parametrize(
    ("mode", "here", "elsewhere"),
    [("global", "global", "global"), ("thread_local", "thread_local", ""), ("relaxed", "", "")],
)
def test_whether_the_host_may_wait_for_other_streams_is_up_to_the_mode(mode: str, here: str, elsewhere: str):
    x, other = numbers(3), torch.npu.Stream()
    for expected, in_thread in ((here, False), (elsewhere, True)):
        error = error_in_a_capture(mode, partial(waits, x, other), in_thread)
        assert f'capture_error_mode="{expected}"' in error if expected else error == ""


def raw_memory(action: str, errors: list[str]) -> None:
    torch.empty(8, device="npu")  # a tensor is allowed in every mode and thread
    try:
        if action == "caching_allocator_alloc()":
            torch.npu.caching_allocator_delete(torch.npu.caching_allocator_alloc(64))
        else:
            torch.npu.empty_cache()
        errors.append("")
    except RuntimeError as error:
        errors.append(str(error))


@pytest.mark.feature("1.09", "3.11")
@pytest.mark.parametrize("action", ["caching_allocator_alloc()", "empty_cache()"])
@pytest.mark.parametrize(
    ("mode", "here", "elsewhere"), [("global", True, True), ("thread_local", True, False), ("relaxed", False, False)]
)
def test_who_may_take_raw_memory_of_the_device_is_up_to_the_mode(mode: str, here: bool, elsewhere: bool, action: str):
    for refused, in_thread in ((here, False), (elsewhere, True)):
        error = error_in_a_capture(mode, partial(raw_memory, action), in_thread)
        text = (
            f"{action}: the host cannot take raw memory of the device, or give back what is cached, while a "
            f'graph is being captured with capture_error_mode="{mode}"; '
        )
        assert error.startswith(text) if refused else error == ""
    errors: list[str] = []
    raw_memory(action, errors)
    assert errors[-1] == ""


def test_wrong_uses_say_what_is_wrong():
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError, match="the default stream cannot be captured"):
        graph.capture_begin()
    with pytest.raises(ValueError, match='capture_error_mode is "global", "thread_local" or "relaxed", got "lax"'):
        graph.capture_begin(capture_error_mode="lax")
    with pytest.raises(RuntimeError, match="capture_end: this graph is not being captured"):
        graph.capture_end()
    with pytest.raises(RuntimeError, match="pool: no graph was captured"):
        graph.pool()
    with pytest.raises(RuntimeError, match="debug_dump: no graph was captured"):
        graph.debug_dump("nowhere")
    for pool in (3, (1,), ("0", "1")):
        with pytest.raises(TypeError, match=re.escape(f"pool is {pool!r}, and must be from graph_pool_handle()")):
            captured(lambda: numbers(3) + 1, pool=pool)
    with pytest.raises(RuntimeError, match="is being captured; end that capture before another one"):
        captured(lambda: captured(lambda: numbers(3) + 1))
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        graph.capture_begin()
        with pytest.raises(RuntimeError, match="is already being captured"):
            torch.npu.NPUGraph().capture_begin()
        with pytest.raises(RuntimeError, match="graphs do not nest"):
            torch.npu.NPUGraph().replay()
        with torch.npu.stream(torch.npu.Stream()), pytest.raises(RuntimeError, match="the capture began in stream"):
            graph.capture_end()
        graph.capture_end()
    with pytest.raises(RuntimeError, match=f"graph_task_group_begin: stream {stream.stream_id} of npu:0 is not being"):
        torch.npu.graph_task_group_begin(stream)
    with pytest.raises(RuntimeError, match="graph_task_update_end: no update was begun"):
        torch.npu.graph_task_update_end(stream)


def test_an_error_in_a_capture_leaves_nothing():
    x = numbers(4)

    def fn() -> None:
        x.add_(1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        captured(fn)
    assert same(x, numbers(4)) and not torch.npu.is_current_stream_capturing()
