# SPDX-License-Identifier: Apache-2.0
"""Streams and events. Eager work on npu is done when its call returns, so that streams matter to graphs only."""

from __future__ import annotations

import ctypes

import torch
from npugraph._C import device as _device

from torch_npu.npu._index import DeviceLike, device_index


class Stream(torch.Stream):
    """A queue of work on one device: of ``device``, by default the current one, or the existing stream of
    ``stream_id``, ``device_index`` and ``device_type``. All priorities are alike.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs):
        if kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        return super().__new__(cls, torch.device("npu", device_index(device)), priority=priority)

    @property
    def npu_stream(self) -> int:
        """The handle: a number that no other stream of any device has."""
        return self.native_handle

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.npu_stream)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Records ``event``, by default a new one, in this stream; returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def set_data_preprocess_stream(self, is_data_preprocess_stream: bool = False) -> None:
        """Accepted, and without effect: it concerns the driver's queues."""

    def __repr__(self) -> str:
        return f"torch.npu.Stream(device=npu:{self.device_index}, stream_id={self.stream_id})"


class SyncLaunchStream(Stream):
    """A stream whose calls return when their work is done, which here is every stream."""


class ExternalStream(Stream):
    """The stream whose handle (``Stream.npu_stream``) is ``stream_ptr``."""

    def __new__(cls, stream_ptr: int, device: DeviceLike = None, **kwargs):
        stream_id, index = _device.stream_of_handle(stream_ptr)
        if device is not None and device_index(device) != index:
            raise ValueError(f"stream {stream_ptr:#x} is of npu:{index}, not of npu:{device_index(device)}")
        return super().__new__(cls, stream_id=stream_id, device_index=index, device_type=_device.TYPE)


class Event(torch.Event):
    """A point in a stream; with ``enable_timing`` also its time. ``blocking`` changes nothing here.

    Raises RuntimeError for ``interprocess``, which needs a driver.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        if interprocess:
            raise RuntimeError("events between processes are not supported on this device")
        return super().__new__(cls, "npu", enable_timing=enable_timing, blocking=blocking, interprocess=False)

    def record(self, stream: torch.Stream | None = None) -> None:
        """Marks the end of the work that is now in ``stream``, by default the current one."""
        super().record(torch.accelerator.current_stream() if stream is None else stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Later work of ``stream``, by default the current one, waits for this event."""
        super().wait(torch.accelerator.current_stream() if stream is None else stream)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds from this event to ``end_event``. RuntimeError unless both keep time and were recorded."""
        return _device.milliseconds_between(self.event_id, end_event.event_id)

    def recorded_time(self) -> int:
        """Nanoseconds on a steady clock at the last record. RuntimeError where there is none, or no timing."""
        return _device.event_nanoseconds(self.event_id)

    def __repr__(self) -> str:
        return f"<torch.npu.Event {self.event_id:#x}>" if self.event_id else "<torch.npu.Event uninitialized>"
