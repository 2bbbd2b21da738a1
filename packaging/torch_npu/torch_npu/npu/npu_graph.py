# SPDX-License-Identifier: Apache-2.0
"""Captured graphs. A graph records once what is launched in a stream, and replays it on the same memory.

A capture computes nothing that can be seen, as on other devices: memory outside of the graph and generators stay as
they were. Inputs are updated in place between replays. Results stand where the capture put them, until ``reset()``.

A replay draws random numbers from the state in which the generators are then. If a capture reads a state
(``get_rng_state``), each replay reads its own state at that place, and ``set_rng_state`` sets that state again. Inside
of a capture, ``manual_seed`` takes only the seed that the generator has, and goes back to the state at the beginning of
the replay.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from npugraph import _ascend as _device
from torch_npu import _C
from torch_npu.npu.graph_handlers import GraphDispatchMode
from torch_npu.npu.graph_traces import traces
from torch_npu.npu.memory import empty_cache
from torch_npu.npu.streams import Stream
from torch_npu.npu.utils import StreamContext, current_stream, synchronize

Pool = tuple[int, int]


def is_current_stream_capturing() -> bool:
    """Whether a graph is being captured in the calling thread's current stream."""
    return _device.is_capturing(current_stream())


def graph_pool_handle() -> Pool:
    """Returns a new memory pool, for graphs that share one."""
    return _device.new_pool()


def graph_task_group_begin(stream: torch.Stream) -> None:
    """Begins a task group in ``stream``, which is being captured. What is launched there until ``graph_task_group_end``
    can be replaced later."""
    _device.begin_task_group(stream)


def graph_task_group_end(stream: torch.Stream) -> _C._NPUTaskGroupHandle:
    """Ends the task group. Returns the handle by which ``graph_task_update_begin`` knows it."""
    return _device.end_task_group(stream)


def graph_task_update_begin(stream: torch.Stream, handle: _C._NPUTaskGroupHandle) -> None:
    """Begins an update of a task group. What is launched in ``stream`` until ``graph_task_update_end`` does not run: it
    replaces the group."""
    _device.begin_task_update(stream, handle)


def graph_task_update_end(stream: torch.Stream) -> None:
    """Ends the update. Later replays run what was launched since it began."""
    _device.end_task_update(stream)


class NPUGraph(_C._NPUGraph):
    """A captured graph.

    If ``auto_dispatch_capture`` is on during the capture, calls of operators that have a handler
    (``register_npu_graph_handler``) become task groups of ``graph_dispatch_mode``, which ``update`` issues again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.graph_dispatch_mode = GraphDispatchMode()
        self.auto_dispatch_capture = False

    def capture_begin(self, pool: Pool | None = None, capture_error_mode: str = "global") -> None:
        """Begins to record what is launched in the current stream, which must not be the default one.

        ``pool`` is that of another graph, or from ``graph_pool_handle()``. While the capture runs, the host may not
        wait for the device: in any thread ("global"), in the calling one ("thread_local"), or only for the captured
        streams ("relaxed"). Raises TypeError for another pool.
        """
        if pool is not None and not _is_pool(pool):
            raise TypeError(f"NPUGraph: pool is {pool!r}, and must be from graph_pool_handle() or NPUGraph.pool()")
        super().begin(pool, capture_error_mode)

    def capture_end(self) -> None:
        """Ends the capture. Raises ``RuntimeError`` if the recorded launches cannot be replayed; the graph is then
        empty."""
        super().end()

    def replay(self) -> None:
        """Runs the graph. If it waits for an ``ExternalEvent`` that has not been recorded, it returns, and the rest
        runs when the event is recorded."""
        super().replay()

    def reset(self) -> None:
        """Gives the graph's memory back. The graph can then be captured anew."""
        super().reset()
        self.graph_dispatch_mode = GraphDispatchMode()

    def pool(self) -> Pool:
        """Returns the graph's memory pool."""
        return super().pool()

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Says before the capture that ``generator``, of npu, draws inside of it. All generators of npu may draw, also
        those that were not registered: each replay goes on from the state that they have then. Raises TypeError or
        ValueError for anything but a generator of npu, RuntimeError during a capture of the current stream."""
        if not isinstance(generator, torch.Generator):
            raise TypeError(
                f"NPUGraph.register_generator_state: generator is a {type(generator).__name__}, and must be a "
                "torch.Generator of npu"
            )
        if generator.device.type != "npu":
            raise ValueError(
                f"NPUGraph.register_generator_state: the generator is one of {generator.device}, and must be of npu"
            )
        if is_current_stream_capturing():
            raise RuntimeError(
                "NPUGraph.register_generator_state: the current stream is being captured; generators are registered "
                "before that"
            )

    def update(self, cpu_update_input: Sequence[Mapping[str, Any]]) -> None:
        """Issues the calls that ``graph_dispatch_mode`` captured again, with new arguments by name: one dict for all of
        them, or one for each."""
        self.graph_dispatch_mode.update(cpu_update_input)

    def debug_dump(self, debug_path: str) -> None:
        """Writes the graph to a file, as the text of its Programs. If the name of the file ends with ``.json``, it
        becomes a Chrome trace of the launches instead, each stream by itself. A file beside it, whose name ends with
        ``.aligned.json``, gets that trace with the streams as they wait for each other."""
        path = Path(debug_path)
        by_stream, together = traces(super().launched())
        path.write_text(by_stream if path.suffix == ".json" else super().text())
        path.with_suffix(".aligned.json").write_text(together)

    def super_kernel_optimize(
        self, optimize_options: Mapping[str, Any] | None = None, debug_options: Mapping[str, Any] | None = None
    ) -> None:
        """Has no effect: tasks of the host are not fused into one kernel. Raises ``RuntimeError`` for options that do
        not exist, and for values that they do not take."""
        from npugraph import options

        for name, given, known in (
            ("optimize_options", optimize_options, options.SUPER_KERNEL_OPTIMIZE),
            ("debug_options", debug_options, options.SUPER_KERNEL_DEBUG),
        ):
            if given is None:
                continue
            try:
                known.check(f"NPUGraph.super_kernel_optimize: {name}", given)
            except TypeError as error:
                raise RuntimeError(str(error)) from None


def _is_pool(pool: object) -> bool:
    return isinstance(pool, tuple) and len(pool) == 2 and all(type(number) is int for number in pool)


class graph:
    """Context manager that captures what runs inside of it into ``npu_graph``, in ``stream``, or in a stream of its own
    on the device that is current when this object is made."""

    default_capture_stream: Stream | None = None  # the stream that was taken last
    _capture_streams: ClassVar[dict[int, Stream]] = {}  # by device

    def __init__(
        self,
        npu_graph: NPUGraph,
        pool: Pool | None = None,
        stream: torch.Stream | None = None,
        auto_dispatch_capture: bool = False,
        capture_error_mode: str = "global",
    ):
        if stream is None:
            stream = self._default_stream()
        self.npu_graph = npu_graph
        self.pool = pool
        self.capture_stream = stream
        self.stream_ctx = StreamContext(stream)
        self.auto_dispatch_capture = auto_dispatch_capture
        self.capture_error_mode = capture_error_mode

    @classmethod
    def _default_stream(cls) -> Stream:
        last, device = cls.default_capture_stream, _device.current()
        if last is None or last.device_index != device:
            last = cls._capture_streams.get(device) or Stream()
        cls.default_capture_stream = cls._capture_streams[device] = last
        return last

    def __enter__(self) -> None:
        if is_current_stream_capturing():
            raise RuntimeError("npu.graph: the current stream is being captured; end that capture before another one")
        synchronize()
        gc.collect()
        empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.npu_graph.capture_begin(pool=self.pool, capture_error_mode=self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise
        self.npu_graph.auto_dispatch_capture = self.auto_dispatch_capture
        if self.auto_dispatch_capture:
            self.npu_graph.graph_dispatch_mode.__enter__()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self.auto_dispatch_capture:
            self.npu_graph.graph_dispatch_mode.__exit__(kind, *rest)
        try:
            if kind is None:
                self.npu_graph.capture_end()
            else:
                self.npu_graph.abandon()
        finally:
            self.stream_ctx.__exit__(kind, *rest)


def super_kernel_scope_begin(scope_name: str | None = None) -> None:
    """Marks in a graph the place where a scope of fused kernels begins. Computes nothing."""
    torch.ops.npu.super_kernel_scope_begin(scope_name)


def super_kernel_scope_end(scope_name: str | None = None) -> None:
    """Marks in a graph the place where the scope ends. Computes nothing."""
    torch.ops.npu.super_kernel_scope_end(scope_name)
