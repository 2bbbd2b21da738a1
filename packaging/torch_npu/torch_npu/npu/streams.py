# SPDX-License-Identifier: Apache-2.0
"""Streams and events. Eager work on npu is done when its call returns, so that streams matter to graphs only."""

from __future__ import annotations

import ctypes

import torch

from npugraph._C import device as _device
from torch_npu.npu import _torch_functions as _torch
from torch_npu.npu._index import DeviceLike, device_index

_urgent: set[int] = set()  # handles of streams of the greatest priority


class Stream(torch.Stream):
    """A queue of work on one device: of ``device``, by default the current one, or the existing stream of
    ``stream_id``, ``device_index`` and ``device_type``. A ``priority`` is kept within ``priority_range()``; work of all
    priorities is run alike.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **kwargs):
        if not kwargs:
            kwargs = {"device": torch.device("npu", device_index(device))}
        self = super().__new__(cls, priority=priority, **kwargs)
        if priority < 0 and self.stream_id != 0:
            _urgent.add(self.npu_stream)
        return self

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority; the lower number goes first."""
        return 0, -1

    @property
    def priority(self) -> int:
        """What the stream was made with."""
        return -1 if self.npu_stream in _urgent else 0

    @property
    def npu_stream(self) -> int:
        """The handle: a number that no other stream of any device has."""
        return self.native_handle

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.npu_stream)

    def wait_event(self, event: torch.Event) -> None:
        """Later work of this stream waits for ``event``."""
        super().wait_event(event)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Later work of this stream waits for what is now in ``stream``."""
        super().wait_stream(stream)

    def query(self) -> bool:
        """Whether all work in this stream is done, which it always is."""
        return super().query()

    def synchronize(self) -> None:
        """Waits until all work in this stream is done."""
        super().synchronize()

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


# Work before a recorded event is done, so that an event's handle has nothing to say but that it is one.
_HANDLE = b"npugraph event".ljust(64, b"\0")


class Event(torch.Event):
    """A point in a stream; with ``enable_timing`` also its time. ``blocking`` changes nothing here.

    Raises ValueError for ``interprocess`` with ``enable_timing``: other processes keep other time.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False):
        if interprocess and enable_timing:
            raise ValueError("Event: an event with interprocess=True cannot have enable_timing=True")
        self = super().__new__(cls, "npu", enable_timing=enable_timing, blocking=blocking, interprocess=False)
        self._is_interprocess = interprocess
        return self

    @classmethod
    def from_ipc_handle(cls, device: DeviceLike, handle: bytes) -> Event:
        """The event of another process whose ``ipc_handle`` this is. ValueError for other bytes."""
        device_index(device)
        if handle != _HANDLE:
            raise ValueError("Event.from_ipc_handle: handle is not one that ipc_handle returned")
        return cls(interprocess=True)

    def ipc_handle(self) -> bytes:
        """What ``from_ipc_handle`` takes in another process. RuntimeError unless made with ``interprocess``."""
        if not self._is_interprocess:
            raise RuntimeError("Event.ipc_handle: make the event with interprocess=True")
        return _HANDLE

    def record(self, stream: torch.Stream | None = None) -> None:
        """Marks the end of the work that is now in ``stream``, by default the current one."""
        super().record(_torch.current_stream() if stream is None else stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Later work of ``stream``, by default the current one, waits for this event."""
        super().wait(_torch.current_stream() if stream is None else stream)

    def query(self) -> bool:
        """Whether the work before this event is done, which it always is."""
        return super().query()

    def synchronize(self) -> None:
        """Waits until the work before this event is done."""
        super().synchronize()

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds from this event to ``end_event``. RuntimeError unless both keep time and were recorded."""
        return _device.milliseconds_between(self.event_id, end_event.event_id)

    def recorded_time(self) -> int:
        """Nanoseconds on a steady clock at the last record. RuntimeError where there is none, or no timing."""
        return _device.event_nanoseconds(self.event_id)

    def __repr__(self) -> str:
        return f"<torch.npu.Event {self.event_id:#x}>" if self.event_id else "<torch.npu.Event uninitialized>"


class ExternalEvent(_device.ExternalEvent):
    """An event by which a captured graph waits for what happens outside of it.

    In a stream that is captured ``record``, ``wait`` and ``reset`` become part of the graph. A replay that waits for an
    event that nobody has recorded stops there; ``record`` carries it on. Until then work that follows in its stream
    raises RuntimeError, because nothing here runs later. Without ``stream`` the current one is meant.
    """

    def record(self, stream: torch.Stream | None = None) -> None:
        """Marks that ``stream`` has come here; who waits goes on."""
        super().record(_torch.current_stream() if stream is None else stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Later work of ``stream`` waits until the event was recorded."""
        super().wait(_torch.current_stream() if stream is None else stream)

    def reset(self, stream: torch.Stream | None = None) -> None:
        """The event counts as not recorded again."""
        super().reset(_torch.current_stream() if stream is None else stream)
