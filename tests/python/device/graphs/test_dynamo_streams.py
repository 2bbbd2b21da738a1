# SPDX-License-Identifier: Apache-2.0
"""Streams, events and queries of the device in functions that Dynamo traces, in one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import npu

OUTER = npu.Stream()
EVENT = npu.Event(enable_timing=True)


def queries(x: torch.Tensor) -> torch.Tensor:
    assert npu.is_available() and npu.is_initialized() and npu.is_bf16_supported()
    properties = npu.get_device_properties(x.device)
    also = npu.get_device_properties("npu:1").name + npu.get_device_name() + str(npu.get_device_capability())
    y = torch.ones(3, device=f"npu:{npu.current_device()}") * properties.vector_core_num + len(also)
    return x + y + npu.device_count() + npu.get_device_properties().total_memory % 7 + npu.utils.get_soc_version()


def own_stream(x: torch.Tensor) -> torch.Tensor:
    stream = npu.Stream()
    stream.wait_stream(npu.current_stream())
    with npu.stream(stream):
        y = x * 2
    npu.current_stream().wait_stream(stream)
    return y + 1


def stream_of_a_device(x: torch.Tensor) -> torch.Tensor:
    stream = npu.Stream(device="npu:0", priority=-1)
    with npu.stream(stream):
        y = x * 2
        y.record_stream(stream)
    npu.current_stream(x.device).wait_stream(stream)
    stream.synchronize()
    return y


def no_stream(x: torch.Tensor) -> torch.Tensor:
    with npu.stream(None):
        return x + 1


def generic_stream(x: torch.Tensor) -> torch.Tensor:
    with torch.Stream("npu"):
        return x + 1


def chosen_stream(x: torch.Tensor) -> torch.Tensor:
    before = npu.current_stream()
    npu.set_stream(OUTER)
    y = x * 2
    npu.set_stream(before)
    before.wait_stream(OUTER)
    return y + int(before == npu.default_stream()) + int(npu.default_stream(1) == before)


def events(x: torch.Tensor) -> torch.Tensor:
    main = npu.current_stream()
    event, timed = npu.Event(), npu.Event(enable_timing=True)
    with npu.stream(OUTER):
        y = x * 2
        event.record(OUTER)
        timed.record()
    event.wait(main)
    main.wait_event(timed)
    other = main.record_event()
    OUTER.wait_event(other)
    event.synchronize()
    npu.synchronize()
    return y + 1


def devices(x: torch.Tensor) -> torch.Tensor:
    with npu.device(1):
        y = torch.ones(3, device="npu")
        inside = npu.current_device()
    with npu.device(None):
        outside = npu.current_device()
    return x + y.to(x.device) + inside * 10 + outside


def numbers_of_streams(x: torch.Tensor) -> torch.Tensor:
    stream = npu.current_stream()
    return x + stream.stream_id + stream.device_index + stream.npu_stream + stream.priority


def nested_of_streams(x: torch.Tensor) -> torch.Tensor:
    inner = npu.Stream()
    with npu.stream(OUTER):
        y = x * 2
        with npu.stream(inner):
            inner.wait_stream(OUTER)
            z = y * 3
        OUTER.wait_stream(inner)
        y = z + 1
    npu.current_stream().wait_stream(OUTER)
    return y


FUNCTIONS = [
    devices,
    numbers_of_streams,
    queries,
    own_stream,
    stream_of_a_device,
    no_stream,
    generic_stream,
    chosen_stream,
    events,
    nested_of_streams,
]


@pytest.mark.parametrize("backend", ["aot_eager", "npugraph_ex"])
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_one_graph(fn: Callable[[torch.Tensor], torch.Tensor], backend: str) -> None:
    x = torch.arange(3.0, device="npu")
    with torch.no_grad():
        assert torch.equal(torch.compile(fn, backend=backend, fullgraph=True)(x), fn(x))
    assert npu.current_stream() == npu.default_stream()


def nested(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    inner = npu.Stream()
    with npu.stream(OUTER):
        y = x * 2
        with npu.stream(inner):
            z = x * 3
        y = y + 1
    return x + 1, y, z


def nested_streams_themselves(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    inner = npu.Stream()
    with OUTER:
        y = x * 2
        with inner:
            z = x * 3
        y = y + 1
    return x + 1, y, z


@pytest.mark.parametrize("nested", [nested, nested_streams_themselves])
def test_switches_of_streams_are_nodes_that_other_backends_see(nested: Callable[..., Any]) -> None:
    """A backend that runs these nodes runs each one on its stream."""
    seen, where = [], []

    def backend(gm: torch.fx.GraphModule, _: Any) -> Any:
        seen.extend(node for node in gm.graph.nodes if node.op == "call_function")

        class Noted(torch.fx.Interpreter):
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                if getattr(target, "__name__", "") in ("add", "mul"):
                    where.append(npu.current_stream().stream_id)
                return super().call_function(target, args, kwargs)

        return Noted(gm).run

    x, before = torch.arange(3.0, device="npu"), npu.current_stream()
    got = torch.compile(nested, backend=backend, fullgraph=True)(x)
    assert all(map(torch.equal, got, nested(x)))
    assert npu.current_stream() == before
    switches = [node for node in seen if node.target in (npu.current_stream, npu.set_stream)]
    assert [node.target.__name__ for node in switches] == ["current_stream", "set_stream"] * 2 + ["set_stream"] * 2
    assert [node.args[0] for node in switches[-2:]] == [switches[2], switches[0]]
    inner = where[1]
    assert where == [OUTER.stream_id, inner, OUTER.stream_id, before.stream_id]
    assert inner not in (OUTER.stream_id, before.stream_id)


def test_a_block_of_a_stream_of_another_device_restores_both() -> None:
    other = npu.Stream(device="npu:1")

    def function(x: torch.Tensor) -> torch.Tensor:
        with npu.stream(other):
            y = x * 2
        return y + 1

    x, before, before_there = torch.arange(3.0, device="npu"), npu.current_stream(), npu.current_stream(1)
    torch.compile(function, backend="eager", fullgraph=True)(x)
    assert (npu.current_device(), npu.current_stream(), npu.current_stream(1)) == (0, before, before_there)


def test_streams_of_accelerators_are_chosen_in_graphs() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
        before = torch.accelerator.current_stream()
        torch.accelerator.set_stream(OUTER)
        y, is_outer = x * 2, npu.current_stream() == OUTER
        torch.accelerator.set_stream(before)
        return y, is_outer

    x, before = torch.arange(3.0, device="npu"), npu.current_stream()
    y, is_outer = torch.compile(function, backend="eager", fullgraph=True)(x)
    assert torch.equal(y, x * 2) and is_outer
    assert npu.current_stream() == before


def test_another_stream_is_another_graph() -> None:
    compiled = torch.compile(numbers_of_streams, backend="eager", fullgraph=True)
    x = torch.arange(3.0, device="npu")
    for stream in (npu.default_stream(), OUTER, npu.Stream(priority=-1)):
        with npu.stream(stream):
            assert torch.equal(compiled(x), numbers_of_streams(x))


@pytest.mark.parametrize("name", ["is_current_stream_capturing", "memory_allocated"])
def test_graphs_end_at_numbers_of_the_moment(name: str) -> None:
    fn = getattr(npu, name)
    x = torch.arange(3.0, device="npu")
    with pytest.raises(torch._dynamo.exc.Unsupported, match=rf"(?s)returned non-Tensor.*{name}"):
        torch.compile(lambda x: (x + 1, fn()), backend="eager", fullgraph=True)(x)
    y, _ = torch.compile(lambda x: (x + 1, fn()), backend="eager")(x)
    assert torch.equal(y, x + 1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "npugraph_ex"])
def test_an_event_from_outside_is_recorded_at_each_call(backend: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        EVENT.record()
        return y * 2

    compiled, times = torch.compile(fn, backend=backend, fullgraph=True), []
    for _ in range(3):
        with torch.no_grad():
            compiled(torch.ones(3, device="npu"))
        times.append(EVENT.recorded_time())
    assert times[0] < times[1] < times[2]


def test_streams_are_arguments_and_results() -> None:
    def fn(x: torch.Tensor, stream: Any) -> Any:
        with npu.stream(stream):
            y = x + 1
        return y, npu.current_stream(), stream.npu_stream

    compiled = torch.compile(fn, backend="eager", fullgraph=True)
    for stream in (OUTER, npu.Stream()):
        y, current, handle = compiled(torch.ones(2, device="npu"), stream)
        assert y.tolist() == [2, 2] and current == npu.default_stream() and handle == stream.npu_stream


def test_another_device_is_another_graph() -> None:
    compiled = torch.compile(lambda x: x + npu.current_device(), backend="eager", fullgraph=True)
    assert compiled(torch.ones(1, device="npu")).item() == 1
    with npu.device(1):
        assert compiled(torch.ones(1, device="npu")).item() == 2


def test_the_interface_of_each_device() -> None:
    from torch._dynamo.device_interface import get_interface_for_device

    interface = get_interface_for_device("npu")
    assert {get_interface_for_device(name) for name in ("npu:0", "npu:1", torch.device("npu:1"))} == {interface}
    assert interface.current_device() == 0 and interface.get_compute_capability() == npu.get_device_name()
    assert interface.is_available() and interface.get_raw_stream(0) == npu.default_stream(0).npu_stream
    assert issubclass(interface.Event, torch.Event) and issubclass(interface.Stream, torch.Stream)


# torch.accelerator


def test_functions_of_accelerators() -> None:
    accelerator = torch.accelerator
    assert accelerator.is_available() and accelerator.current_accelerator() == torch.device("npu")
    assert accelerator.device_count() == npu.device_count() and accelerator.current_device_index() == 0
    assert {torch.float32, torch.bfloat16, torch.int8} <= accelerator.get_device_capability()["supported_dtypes"]
    accelerator.set_device_index(1)
    assert npu.current_device() == accelerator.current_device_index() == 1
    with accelerator.device_index(0):
        assert npu.current_device() == 0
    accelerator.set_device_index("npu:0")
    accelerator.set_stream(OUTER)
    assert npu.current_stream() == accelerator.current_stream() == OUTER
    accelerator.set_stream(npu.default_stream())
    assert accelerator.current_stream("npu:1").device_index == 1
    accelerator.synchronize()
    accelerator.synchronize("npu:1")


def test_memory_of_accelerators() -> None:
    accelerator = torch.accelerator
    accelerator.reset_peak_memory_stats()
    accelerator.reset_accumulated_memory_stats()
    before, (free, total) = accelerator.memory_allocated(), accelerator.get_memory_info()
    x = torch.empty(1 << 20, device="npu")
    assert accelerator.memory_allocated() == before + x.nbytes == npu.memory_allocated()
    assert accelerator.max_memory_allocated() >= before + x.nbytes
    assert accelerator.memory_reserved() >= x.nbytes and accelerator.max_memory_reserved() >= x.nbytes
    assert accelerator.get_memory_info()[0] <= free - x.nbytes and free <= total
    assert accelerator.memory_stats(0)["allocated_bytes.all.current"] == accelerator.memory_allocated("npu:0")
    del x
    assert accelerator.memory_allocated() == before
    accelerator.empty_cache()
    accelerator.empty_host_cache()


@pytest.mark.parametrize("mode", ["default", "global", "thread_local", "relaxed"])
def test_graphs_of_accelerators(mode: str) -> None:
    x = torch.arange(4.0, device="npu")
    pool = npu.graph_pool_handle()
    graph = torch.accelerator.Graph(pool=pool, capture_error_mode=mode)
    with npu.stream(npu.Stream()):
        graph.capture_begin()
        y = x * 2
        graph.capture_end()
    graph.replay()
    assert graph.pool() == pool and torch.equal(y, x * 2)
    graph.reset()
    with pytest.raises(RuntimeError, match="no graph was captured"):
        graph.replay()


def test_a_graph_is_instantiated_later() -> None:
    x = torch.arange(4.0, device="npu")
    graph = torch.accelerator.Graph(keep_graph=True)
    with npu.Stream(), graph:
        y = x + 1
    graph.instantiate()
    for _ in range(2):
        x.mul_(2)
        graph.replay()
        assert torch.equal(y, x + 1)
