# SPDX-License-Identifier: Apache-2.0
"""The current device and the current stream of a thread, and further functions of the device."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from npugraph import _ascend as _device
from torch_npu.npu import _torch_functions as _torch
from torch_npu.npu._index import DeviceLike, device_index
from torch_npu.npu.cann import _is_gte_cann_version, get_cann_version, get_soc_version
from torch_npu.npu.npu_config import (
    finalize_dump,
    get_task_queue_enable,
    init_dump,
    set_dump,
    set_op_timeout_ms,
    set_task_queue_enable,
)
from torch_npu.npu.properties import is_bf16_supported
from torch_npu.npu.streams import Stream

__all__ = [
    "StreamContext",
    "_is_gte_cann_version",
    "check_uce_in_memory",
    "clear_npu_overflow_flag",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_of",
    "finalize_dump",
    "get_cann_version",
    "get_npu_overflow_flag",
    "get_soc_version",
    "get_sync_debug_mode",
    "get_task_queue_enable",
    "init_dump",
    "ipc_collect",
    "is_bf16_supported",
    "is_force_overflow_check",
    "is_support_inf_nan",
    "npu_check_overflow",
    "obfuscation_calculate",
    "obfuscation_finalize",
    "obfuscation_initialize",
    "restart_device",
    "set_device",
    "set_dump",
    "set_op_timeout_ms",
    "set_stream",
    "set_sync_debug_mode",
    "set_task_queue_enable",
    "stop_device",
    "stream",
    "stress_detect",
    "synchronize",
]


def current_device() -> int:
    """Returns the index of the calling thread's current device."""
    return _device.current()


def set_device(device: DeviceLike) -> None:
    """Makes ``device`` the current device of the calling thread: an index, "npu:1" or a torch.device."""
    _device.set_current(device_index(device))


class device:
    """Context manager that makes ``device`` the current device inside of it. None and negative indices change
    nothing."""

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
    """Context manager that makes the device of ``obj`` the current device inside of it, if that device is of npu."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if getattr(obj, "device", torch.device("cpu")).type == "npu" else None)


def synchronize(device: DeviceLike = None) -> None:
    """Waits until all work on ``device`` is done."""
    _torch.synchronize(device_index(device))


def _as_stream(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device: DeviceLike = None) -> Stream:
    """Returns the stream that the calling thread's work on ``device`` goes to."""
    return _as_stream(_torch.current_stream(device_index(device)))


def default_stream(device: DeviceLike = None) -> Stream:
    """Returns the stream that work on ``device`` goes to if nobody chose another."""
    return Stream(stream_id=0, device_index=device_index(device), device_type=_device.TYPE)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes ``stream`` the current stream of its device, and that device the current one. None changes nothing."""
    if stream is not None:
        _torch.set_stream(stream)


class StreamContext:
    """Context manager that makes work inside of it go to ``stream``, on that stream's device. None changes nothing."""

    def __init__(self, stream_ctx: torch.Stream | None):
        self.stream = stream_ctx

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._device = _device.current()
        self._stream = _torch.current_stream(self.stream.device_index)
        _torch.set_stream(self.stream)

    def __exit__(self, *exc: object) -> None:
        if self.stream is not None:
            _torch.set_stream(self._stream)
            _device.set_current(self._device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Returns a context manager that makes work inside of it go to ``stream``. None changes nothing."""
    return StreamContext(stream)


_SYNC_DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}
_sync_debug_mode = 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Keeps what should happen when the host waits for the device: "default" or 0, "warn" or 1, "error" or 2. The host
    never waits here.

    Raises ValueError for another mode.
    """
    global _sync_debug_mode
    mode = _SYNC_DEBUG_MODES.get(debug_mode, debug_mode)
    if mode not in _SYNC_DEBUG_MODES.values():
        raise ValueError(
            f"set_sync_debug_mode: debug_mode is {debug_mode!r}, allowed are default, warn, error, 0, 1, 2"
        )
    _sync_debug_mode = mode


def get_sync_debug_mode() -> int:
    """Returns the mode that ``set_sync_debug_mode`` set, as a number."""
    return _sync_debug_mode


def ipc_collect() -> None:
    """Does nothing: memory that other processes no longer use is given back by itself."""


def current_blas_handle() -> None:
    """Returns None, with a warning: there is no such library."""
    warnings.warn("npu does not use a blas handle", stacklevel=2)


def stop_device(device_id: int) -> int:
    """Does nothing, because a device never has work to stop. Returns 0."""
    device_index(device_id)
    return 0


def restart_device(device_id: int, rebuild_all_resources: bool = False) -> int:
    """Does nothing, because devices are always ready. Returns 0."""
    device_index(device_id)
    return 0


def check_uce_in_memory(device_id: int) -> int:
    """Returns 0: the device has found no errors of memory."""
    device_index(device_id)
    return 0


def stress_detect(detect_type: str = "aic") -> int:
    """Returns 0: a test of the hardware has found nothing. Raises ValueError for a test that is not known."""
    if detect_type not in ("aic", "p2p"):
        raise ValueError(f"stress_detect: detect_type is {detect_type!r}, allowed are aic and p2p")
    return 0


def is_support_inf_nan() -> bool:
    """Whether infinities and NaNs are kept as such, which they are."""
    return True


def is_force_overflow_check() -> bool:
    """Whether overflow is looked for although infinities are kept, which it is not."""
    return False


def get_npu_overflow_flag() -> bool:
    """Whether the device's overflow flag is set, which it never is, because infinities are kept."""
    return False


def clear_npu_overflow_flag() -> None:
    """Does nothing: the overflow flag is never set."""


def npu_check_overflow(grad: torch.Tensor | float) -> bool:
    """Whether ``grad`` holds an infinity or a NaN."""
    return not bool(torch.as_tensor(grad).isfinite().all())


def obfuscation_initialize(
    hidden_size: int,
    tp_rank: int,
    cmd: int,
    *,
    data_type: torch.dtype | None = None,
    model_obf_seed_id: int = 0,
    data_obf_seed_id: int = 0,
    thread_num: int = 4,
    obf_coefficient: float = 1.0,
) -> torch.Tensor:
    """Calls the operator of this name."""
    return torch.ops.npu.obfuscation_initialize(
        hidden_size,
        tp_rank,
        cmd,
        data_type=data_type,
        model_obf_seed_id=model_obf_seed_id,
        data_obf_seed_id=data_obf_seed_id,
        thread_num=thread_num,
        obf_coefficient=obf_coefficient,
    )


def obfuscation_finalize(fd_to_close: torch.Tensor) -> torch.Tensor:
    """Calls the operator of this name."""
    return torch.ops.npu.obfuscation_finalize(fd_to_close)


def obfuscation_calculate(
    fd: torch.Tensor, x: torch.Tensor, param: torch.Tensor, *, obf_coefficient: float = 1.0
) -> torch.Tensor:
    """Calls the operator of this name."""
    return torch.ops.npu.obfuscation_calculate(fd, x, param, obf_coefficient=obf_coefficient)


_reporting: set[tuple[int, int]] = set()


def _key(stream: torch.Stream) -> tuple[int, int]:
    return stream.device_index, stream.stream_id


def _subscribe_report(stream: torch.Stream) -> None:
    """Lets ``_launch_host_func`` call functions in the order of ``stream``."""
    _reporting.add(_key(stream))


def _unsubscribe_report(stream: torch.Stream) -> None:
    """Ends what ``_subscribe_report`` began."""
    _reporting.discard(_key(stream))


def _launch_host_func(stream: torch.Stream, func: Callable[[Any], Any], user_data: Any) -> None:
    """Calls ``func(user_data)`` at once, because the work in ``stream`` before it is done.

    Raises RuntimeError for a stream that is not subscribed.
    """
    if _key(stream) not in _reporting:
        raise RuntimeError(f"_launch_host_func: call _subscribe_report for {stream!r} first")
    func(user_data)
