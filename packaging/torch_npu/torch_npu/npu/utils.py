# SPDX-License-Identifier: Apache-2.0
"""Current device and current stream of a thread."""

from __future__ import annotations

import torch
from npugraph._C import device as _device

from torch_npu.npu._index import DeviceLike, device_index
from torch_npu.npu.streams import Stream


def current_device() -> int:
    """Index of the calling thread's current device."""
    return _device.current()


def set_device(device: DeviceLike) -> None:
    """Makes ``device`` the current device of the calling thread: an index, "npu:1" or a torch.device."""
    _device.set_current(device_index(device))


class device:
    """Context manager: the current device inside of it is ``device``. None and negative indices change nothing."""

    def __init__(self, device: DeviceLike):
        unchanged = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if unchanged else device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> device:
        self.prev_idx = _device.current()
        if self.idx >= 0:
            _device.set_current(self.idx)
        return self

    def __exit__(self, *exc: object) -> None:
        _device.set_current(self.prev_idx)


class device_of(device):
    """Context manager: the current device inside of it is that of ``obj``, where that is on npu."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if getattr(obj, "device", torch.device("cpu")).type == "npu" else None)


def synchronize(device: DeviceLike = None) -> None:
    """Waits until all work on ``device`` is done."""
    torch.accelerator.synchronize(device_index(device))


def _as_stream(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device: DeviceLike = None) -> Stream:
    """The stream that the calling thread's work on ``device`` goes to."""
    return _as_stream(torch.accelerator.current_stream(device_index(device)))


def default_stream(device: DeviceLike = None) -> Stream:
    """The stream that work on ``device`` goes to where nobody chose another."""
    return Stream(stream_id=0, device_index=device_index(device), device_type=_device.TYPE)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes ``stream`` the current one of its device, and that the current device; None changes nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Context manager: work inside of it goes to ``stream`` on that stream's device. None changes nothing."""

    def __init__(self, stream_ctx: torch.Stream | None):
        self.stream = stream_ctx

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._device = _device.current()
        self._stream = torch.accelerator.current_stream(self.stream.device_index)
        torch.accelerator.set_stream(self.stream)

    def __exit__(self, *exc: object) -> None:
        if self.stream is not None:
            torch.accelerator.set_stream(self._stream)
            _device.set_current(self._device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager: work inside of it goes to ``stream``. None changes nothing."""
    return StreamContext(stream)
