# SPDX-License-Identifier: Apache-2.0
"""``npugraph_ex.scope.limit_core_num`` limits how many workers run the tasks of a ``with`` block."""

from __future__ import annotations

from typing import Any

import torch

from npugraph.fx.streams.stream_marks import LIMITS


class limit_core_num:
    """Inside of this context, tasks of compiled graphs use at most so many workers: ``op_aicore_num`` for products,
    convolutions and attention, ``op_vectorcore_num`` for all other tasks. The limits also hold for streams that are
    entered inside. Limits nest, and the innermost one counts. In eager code it sets the limits of ``stream``, by
    default npu's current stream, and restores them at the end. Compiled functions that are called inside follow these.

    Raises TypeError for numbers that are not integers. Raises ValueError for numbers below 1, with ``torch_npu`` for
    more cores than a device has (``torch.npu.get_device_properties``), and in eager code for more cores than
    ``torch.npu.set_device_limit`` allows.
    """

    def __init__(self, op_aicore_num: int, op_vectorcore_num: int, stream: Any = None) -> None:
        check_limits(op_aicore_num, op_vectorcore_num)
        self.cube, self.vector = op_aicore_num, op_vectorcore_num
        self.stream = stream
        self.before: dict[str, int] | None = None

    def __enter__(self) -> None:
        if torch.compiler.is_compiling():
            torch.ops.npugraph_ex.scope_enter(list(LIMITS), [str(self.cube), str(self.vector)])
        else:
            self._set_eagerly()

    def __exit__(self, *exception: object) -> None:
        if torch.compiler.is_compiling():
            torch.ops.npugraph_ex.scope_exit()
        elif self.before is not None:
            torch.npu.reset_stream_limit(self.stream)
            if torch.npu.get_stream_limit(self.stream) != self.before:  # the stream had limits of its own
                torch.npu.set_stream_limit(self.stream, *self.before.values())

    def _set_eagerly(self) -> None:
        npu = getattr(torch, "npu", None)
        if npu is None:  # without torch_npu there are no streams to limit
            return
        if self.stream is None:
            self.stream = npu.current_stream()
        self.before = npu.get_stream_limit(self.stream)
        npu.set_stream_limit(self.stream, self.cube, self.vector)


def check_limits(op_aicore_num: int, op_vectorcore_num: int) -> None:
    """Raises TypeError for numbers that are not integers, and ValueError for those below 1 and, with ``torch_npu``,
    above the cores of a device."""
    cubes, vectors = _cores()
    _check("op_aicore_num", op_aicore_num, cubes)
    _check("op_vectorcore_num", op_vectorcore_num, vectors)


def _cores() -> tuple[int | None, int | None]:
    """Returns how many cube and vector cores an npu device has, or None for both without torch_npu."""
    if not hasattr(torch, "npu"):
        return None, None
    properties = torch.npu.get_device_properties()
    return properties.cube_core_num, properties.vector_core_num


def _check(name: str, number: int, most: int | None) -> None:
    if type(number) is not int:
        raise TypeError(f"limit_core_num: {name} is a {type(number).__name__}; it has to be an integer")
    if number < 1 or (most is not None and number > most):
        allowed = "at least 1" if most is None else f"from 1 to {most}, the cores of the device"
        raise ValueError(f"limit_core_num: {name} is {number}; it has to be {allowed}")
