# SPDX-License-Identifier: Apache-2.0
"""torch's profiler under the names that scripts use."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerAction

from npugraph import _C
from npugraph import _ascend as _device
from torch_npu.profiler import kernel_files
from torch_npu.profiler.experimental_config import ExportType, _ExperimentalConfig
from torch_npu.profiler.profiler_interface import ProfilerActivity, supported_activities

__all__ = ["analyse", "profile", "supported_activities", "tensorboard_trace_handler"]

_counts = itertools.count()
_FOLDER = "ASCEND_PROFILER_OUTPUT"


def tensorboard_trace_handler(
    dir_name: str | None = None, worker_name: str | None = None, analyse_flag: bool = True, async_mode: bool = False
) -> Callable[[profile], None]:
    """Returns a function for ``on_trace_ready`` that writes files into
    ``dir_name/<worker_name>_<n>_ascend_pt/ASCEND_PROFILER_OUTPUT``: ``trace_view.json``, a Chrome trace, and, if the
    profile exports text, the tables ``kernel_details.csv``, ``op_statistic.csv`` and ``step_trace_time.csv``.

    Args:
        dir_name: by default ``profiling_data`` in ASCEND_WORK_PATH, or the current directory.
        worker_name: by default the host's name and the number of the process.
        analyse_flag: has no effect, because there is nothing to analyse.
        async_mode: has no effect: files are written when the function returns.
    """
    if dir_name is None:
        work = os.environ.get("ASCEND_WORK_PATH")
        dir_name = os.path.join(work, "profiling_data") if work else os.curdir
    worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"

    def write(prof: profile) -> None:
        folder = Path(dir_name, f"{worker}_{next(_counts)}_ascend_pt", _FOLDER)
        folder.mkdir(parents=True, exist_ok=True)
        prof.export_chrome_trace(str(folder / "trace_view.json"))
        if ExportType.Text in prof.npu_config.export_type:
            prof._write_tables(folder)

    return write


def _clock_offset() -> int:
    """Returns the nanoseconds by which the clock of torch's profiler is ahead of the clock of tasks. Both clocks are
    read one after the other, several times, and the reading that took least time counts."""
    readings = []
    for _ in range(16):
        before, now, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        readings.append((after - before, now - (before + after) // 2))
    return min(readings)[1]


def _torch_activities(activities: Iterable[Any] | None) -> list[torch.profiler.ProfilerActivity]:
    known = {*supported_activities(), *torch.profiler.ProfilerActivity.__members__.values()}
    given = list(supported_activities() if activities is None else activities)
    for one in given:
        if one not in known:
            raise ValueError(
                f"profile: activities has {one!r}, allowed are ProfilerActivity.CPU and ProfilerActivity.NPU"
            )
    return [torch.profiler.ProfilerActivity.CPU]


class profile(torch.profiler.profile):
    """``torch.profiler.profile`` of the host, where work on npu runs. Raises ValueError for unknown activities,
    TypeError for another ``experimental_config``."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        execution_trace_observer: Any = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ):
        if experimental_config is not None and not isinstance(experimental_config, _ExperimentalConfig):
            raise TypeError(
                f"profile: experimental_config is {type(experimental_config).__name__}, "
                "and must be a torch_npu.profiler._ExperimentalConfig"
            )
        self.npu_config = experimental_config or _ExperimentalConfig()
        self._is_running = False
        super().__init__(
            activities=_torch_activities(activities),
            schedule=schedule,
            on_trace_ready=on_trace_ready,
            record_shapes=True,  # the tables tell operators apart by the devices of their inputs
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            execution_trace_observer=execution_trace_observer,
            custom_trace_id_callback=custom_trace_id_callback,
        )

    def __enter__(self) -> profile:
        return super().__enter__()

    def start(self) -> None:
        super().start()
        self._is_running = True

    def stop(self) -> None:
        self._is_running = False
        super().stop()
        _device.end_profile_of_child_threads()

    def step(self) -> None:
        """Says that the next step begins. Does nothing before ``start()`` and after ``stop()``."""
        if self._is_running:
            super().step()

    def start_trace(self) -> None:
        super().start_trace()
        self._clock_offset = _clock_offset()
        _C.task_log_start()

    def stop_trace(self) -> None:
        self._tasks = _C.task_log_stop()
        super().stop_trace()

    def _write_tables(self, folder: Path) -> None:
        events = self.profiler.kineto_results.experimental_event_tree()
        kernel_files.write(folder, events, self._tasks, self._clock_offset)

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        super().set_custom_trace_id_callback(callback)

    def get_trace_id(self) -> str | None:
        return super().get_trace_id()

    @classmethod
    def enable_profiler_in_child_thread(
        cls,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
    ) -> None:
        """Records the calling thread, too, if a profiler is on in the main thread. The settings are those of that
        profiler; the arguments have no effect."""
        _device.profile_child_thread(True)

    @classmethod
    def disable_profiler_in_child_thread(cls) -> None:
        """Stops recording the calling thread."""
        _device.profile_child_thread(False)


def analyse(profiler_path: str, max_process_number: int = 1, export_type: str | list[str] | None = None) -> None:
    """Does nothing: the traces below ``profiler_path`` are complete when they are written. Raises FileNotFoundError if
    there is nothing."""
    if not os.path.exists(profiler_path):
        raise FileNotFoundError(f"analyse: profiler_path is {profiler_path!r}, and there is no such directory")
