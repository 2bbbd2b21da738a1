# SPDX-License-Identifier: Apache-2.0
"""Settings of the device. Those of the vendor's compiler and kernels are kept and have no effect. Limits of cores hold
in compiled graphs: a graph that is called on a stream runs with at most as many workers as the stream may use cores."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from npugraph import _ascend as _device
from torch_npu.npu._index import DeviceLike, device_index
from torch_npu.npu.properties import get_device_properties

Limit = dict[str, int]

_options: dict[str, str] = {}
_jit_compile = False
_mm_bmm_format_nd = True
_deterministic_level = 0
_compatible_impl = False
_task_queue_enable = 1


def set_option(option: Mapping[str, str]) -> None:
    """Keeps options of the vendor's compiler, for example {"ACL_PRECISION_MODE": "must_keep_origin_dtype"}.

    Raises TypeError unless ``option`` is a mapping from names.
    """
    if not isinstance(option, Mapping) or not all(isinstance(name, str) for name in option):
        raise TypeError(f"set_option takes a dictionary from names to values, got {option!r}")
    _options.update(option)


def set_compile_mode(jit_compile: bool = False) -> None:
    """Keeps whether operators are compiled for each shape."""
    global _jit_compile
    _jit_compile = bool(jit_compile)


def is_jit_compile_false() -> bool:
    """Whether ``set_compile_mode`` was left at, or set to, False."""
    return not _jit_compile


def set_mm_bmm_format_nd(is_nd: bool = True) -> None:
    """Keeps whether matrix products take the plain format."""
    global _mm_bmm_format_nd
    _mm_bmm_format_nd = bool(is_nd)


def get_mm_bmm_format_nd() -> bool:
    """Returns the value that ``set_mm_bmm_format_nd`` set; True at first."""
    return _mm_bmm_format_nd


def set_deterministic_level(level: int) -> None:
    """Sets how far results must repeat: 0 means not at all, 1 for equal shapes, and 2 for each row whatever its batch.

    At the levels 1 and 2, torch's deterministic algorithms are on, at 0 they are off. Raises ValueError for another
    level.
    """
    global _deterministic_level
    if level not in (0, 1, 2):
        raise ValueError(f"set_deterministic_level: level is {level!r}, allowed are 0, 1 and 2")
    _deterministic_level = level
    torch.use_deterministic_algorithms(level > 0)


def get_deterministic_level() -> int:
    """Returns the level that ``set_deterministic_level`` set; 0 at first."""
    return _deterministic_level


def use_compatible_impl(is_enable: bool) -> None:
    """Keeps whether the vendor's kernels follow those of other devices to the bit.

    Raises TypeError for anything but a bool.
    """
    global _compatible_impl
    if not isinstance(is_enable, bool):
        raise TypeError(f"use_compatible_impl takes a bool, got {is_enable!r}")
    _compatible_impl = is_enable


def are_compatible_impl_enabled() -> bool:
    """Returns the value that ``use_compatible_impl`` set; False at first."""
    return _compatible_impl


def set_op_timeout_ms(timeout: int) -> None:
    """Has no effect: no operator is stopped. Raises ValueError for a negative number of milliseconds."""
    if timeout < 0:
        raise ValueError(f"set_op_timeout_ms: timeout is {timeout}, and must be at least 0")


def set_task_queue_enable(mode: int) -> None:
    """Keeps how many threads the vendor's eager mode launches from: 0, 1 or 2. Raises ValueError for another number."""
    global _task_queue_enable
    if mode not in (0, 1, 2):
        raise ValueError(f"set_task_queue_enable: mode is {mode!r}, allowed are 0, 1 and 2")
    _task_queue_enable = mode


def get_task_queue_enable() -> int:
    """Returns the value that ``set_task_queue_enable`` set; 1 at first."""
    return _task_queue_enable


def set_aoe(dump_path: str) -> None:
    """Does nothing: there is no tuner."""


def init_dump() -> None:
    """Does nothing: there is no driver that dumps."""


def set_dump(cfg_file: str) -> None:
    """Does nothing: there is no driver that dumps."""


def finalize_dump() -> None:
    """Does nothing: there is no driver that dumps."""


def _all_cores(device: int) -> Limit:
    properties = get_device_properties(device)
    return {"cube_core_num": properties.cube_core_num, "vector_core_num": properties.vector_core_num}


def _limit(cores: tuple[int, int]) -> Limit:
    return {"cube_core_num": cores[0], "vector_core_num": cores[1]}


def _limited(before: Limit, most: Limit, cube_num: int, vector_num: int) -> tuple[int, int]:
    limit = dict(before)
    for name, number in (("cube_core_num", cube_num), ("vector_core_num", vector_num)):
        if number == -1:
            continue
        if not 1 <= number <= most[name]:
            raise ValueError(f"{name} is {number}, and must be from 1 to {most[name]}, or -1 to stay as it is")
        limit[name] = number
    return limit["cube_core_num"], limit["vector_core_num"]


def set_device_limit(device: DeviceLike, cube_num: int = -1, vector_num: int = -1) -> None:
    """Sets how many cube and vector cores of ``device`` may be used. -1 leaves a number as it is.

    Raises ValueError if the device has not so many.
    """
    index = device_index(device)
    _device.limit_device(index, *_limited(get_device_limit(index), _all_cores(index), cube_num, vector_num))


def get_device_limit(device: DeviceLike) -> Limit:
    """Returns the cores that ``device`` may use, as {"cube_core_num": ..., "vector_core_num": ...}."""
    return _limit(_device.device_limits(device_index(device)))


def set_stream_limit(stream: torch.Stream, cube_num: int = -1, vector_num: int = -1) -> None:
    """Sets how many cube and vector cores work of ``stream`` may use. -1 leaves a number as it is.

    Raises ValueError if its device may not use so many.
    """
    limit = _limited(get_stream_limit(stream), get_device_limit(stream.device_index), cube_num, vector_num)
    _device.limit_stream(*_identity(stream), *limit)


def reset_stream_limit(stream: torch.Stream) -> None:
    """Lets work of ``stream`` use the cores that its device may use."""
    _device.reset_stream_limits(*_identity(stream))


def get_stream_limit(stream: torch.Stream) -> Limit:
    """Returns the cores that work of ``stream`` may use, as {"cube_core_num": ..., "vector_core_num": ...}."""
    return _limit(_device.stream_limits(*_identity(stream)))


def _identity(stream: torch.Stream) -> tuple[int, int]:
    return stream.stream_id, stream.device_index
