# SPDX-License-Identifier: Apache-2.0
"""Streams and events. Eager work on npu is done when its call returns, so that streams matter only to graphs."""

from __future__ import annotations

import ctypes

import torch

from npugraph import _ascend as _device
from torch_npu.npu import _torch_functions as _torch
from torch_npu.npu._index import DeviceLike, device_index

_urgent: set[int] = set()  # handles of streams of the greatest priority


class Stream(torch.Stream):
    """A queue of work on ``device``, by default the current one, or the existing stream of ``stream_id``,
    ``device_index`` and ``device_type``. A ``priority`` is kept within ``priority_range()``; work of all priorities
    runs alike."""

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs):
        if not kwargs:
            kwargs = {"device": torch.device("npu", device_index(device))}
        self = super().__new__(cls, priority=priority, **kwargs)
        if priority < 0 and self.stream_id != 0:
            _urgent.add(self.npu_stream)
        return self

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Returns the least and the greatest priority. The lower number goes first."""
        return 0, -1

    @property
    def priority(self) -> int:
        """The priority of the stream, within ``priority_range()``."""
        return -1 if self.npu_stream in _urgent else 0

    @property
    def npu_stream(self) -> int:
        """The handle: a number that no other stream of any device has."""
        return self.native_handle

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.npu_stream)

    def wait_event(self, event: torch.Event) -> None:
        """Makes later work of this stream wait for ``event``."""
        super().wait_event(event)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Makes later work of this stream wait for the work that is in ``stream`` now."""
        super().wait_stream(stream)

    def query(self) -> bool:
        """Whether all work in this stream is done, which it always is."""
        return super().query()

    def synchronize(self) -> None:
        """Waits until all work in this stream is done."""
        super().synchronize()

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Records ``event``, by default a new one, in this stream. Returns the event."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def set_data_preprocess_stream(self, is_data_preprocess_stream: bool = False) -> None:
        """Has no effect: it concerns the driver's queues."""

    def __repr__(self) -> str:
        return f"torch.npu.Stream(device=npu:{self.device_index}, stream_id={self.stream_id})"


class SyncLaunchStream(Stream):
    """A stream whose calls return when their work is done, as those of every stream do here."""


class ExternalStream(Stream):
    """The stream with the handle ``stream_ptr`` (``Stream.npu_stream``). Raises ValueError if it is of another
    device."""

    def __new__(cls, stream_ptr: int, device: DeviceLike = None, **kwargs):
        stream_id, index = _device.stream_of_handle(stream_ptr)
        if device is not None and device_index(device) != index:
            raise ValueError(f"stream {stream_ptr:#x} is of npu:{index}, not of npu:{device_index(device)}")
        return super().__new__(cls, stream_id=stream_id, device_index=index, device_type=_device.TYPE)


# Work before a recorded event is done already, so the handle of an event tells nothing but that it is one.
_HANDLE = b"npugraph event".ljust(64, b"\0")


class Event(torch.Event):
    """A point in a stream, with ``enable_timing`` also its time. ``blocking`` has no effect.

    Raises ValueError for ``interprocess`` with ``enable_timing``, because other processes keep other time.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        if interprocess and enable_timing:
            raise ValueError("Event: an event with interprocess=True cannot have enable_timing=True")
        self = super().__new__(cls, "npu", enable_timing=enable_timing, blocking=blocking, interprocess=False)
        self._is_interprocess = interprocess
        return self

    @classmethod
    def from_ipc_handle(cls, device: DeviceLike, handle: bytes) -> Event:
        """Returns the event of another process with this ``ipc_handle``. Raises ValueError for other bytes."""
        device_index(device)
        if handle != _HANDLE:
            raise ValueError("Event.from_ipc_handle: handle is not one that ipc_handle returned")
        return cls(interprocess=True)

    def ipc_handle(self) -> bytes:
        """Returns the handle that ``from_ipc_handle`` takes in another process. Raises RuntimeError unless the event
        was made with ``interprocess``."""
        if not self._is_interprocess:
            raise RuntimeError("Event.ipc_handle: make the event with interprocess=True")
        return _HANDLE

    def record(self, stream: torch.Stream | None = None) -> None:
        """Marks the end of the work that is now in ``stream``, by default the current one."""
        super().record(_torch.current_stream() if stream is None else stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Makes later work of ``stream``, by default the current one, wait for this event."""
        super().wait(_torch.current_stream() if stream is None else stream)

    def query(self) -> bool:
        """Whether the work before this event is done, which it always is."""
        return super().query()

    def synchronize(self) -> None:
        """Waits until the work before this event is done."""
        super().synchronize()

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Returns the milliseconds from this event to ``end_event``. Raises RuntimeError unless both have timing and
        were recorded."""
        return _device.milliseconds_between(self.event_id, end_event.event_id)

    def recorded_time(self) -> int:
        """Returns the nanoseconds of a steady clock at the last record. Raises RuntimeError without a record or without
        timing."""
        return _device.event_nanoseconds(self.event_id)

    def __repr__(self) -> str:
        return f"<torch.npu.Event {self.event_id:#x}>" if self.event_id else "<torch.npu.Event uninitialized>"


class ExternalEvent(_device.ExternalEvent):
    """An event by which a captured graph waits for something outside of it.

    In a stream that is being captured, ``record``, ``wait`` and ``reset`` become part of the graph. A replay that waits
    for an event that nobody has recorded stops there, and ``record`` lets it go on. Until then, further work in its
    stream raises RuntimeError, because nothing runs later on this device. Without ``stream`` the methods use the
    current one.
    """

    def record(self, stream: torch.Stream | None = None) -> None:
        """Marks that ``stream`` has come here, and lets go on what waits for the event."""
        super().record(_torch.current_stream() if stream is None else stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Makes later work of ``stream`` wait until the event has been recorded."""
        super().wait(_torch.current_stream() if stream is None else stream)

    def reset(self, stream: torch.Stream | None = None) -> None:
        """Makes the event count as not recorded again."""
        super().reset(_torch.current_stream() if stream is None else stream)
