# SPDX-License-Identifier: Apache-2.0
"""A profile of one step of a script."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import torch

import torch_npu.profiler
from torch_npu.profiler import _ExperimentalConfig

_MUCH = _ExperimentalConfig(profiler_level=torch_npu.profiler.ProfilerLevel.Level2)


def Singleton(cls: type) -> Callable[..., Any]:
    """Decorator: the class has one object, which the first call makes."""

    @functools.wraps(cls, updated=())
    def get(*args: Any, **kwargs: Any) -> Any:
        if get.instance is None:
            get.instance = cls(*args, **kwargs)
        return get.instance

    get.instance = None
    return get


class Profile:
    """Records the step ``start_step`` between ``start()`` and ``end()``, which a script calls around each step. Raises
    ValueError for an unknown ``profile_type``.

    Args:
        start_step: number of the step, from 0 on.
        save_path: directory of the trace.
        profile_type: "TORCH" for torch's profiler. None records nothing, and neither does one of the vendor's tools,
            which are not here.
        use_npu: has no effect: work on npu is work of the host.
        record_shape: whether the trace has shapes.
        kwargs: more arguments of ``torch_npu.profiler.profile``.
    """

    def __init__(
        self,
        start_step: int = 10,
        save_path: str = "./npu_profiling",
        profile_type: str | None = None,
        use_npu: bool = True,
        record_shape: bool = True,
        experimental_config: _ExperimentalConfig | None = _MUCH,
        **kwargs: Any,
    ):
        if profile_type not in (None, "TORCH", "CANN", "GE"):
            raise ValueError(f"Profile: profile_type is {profile_type!r}, allowed are None, TORCH, CANN and GE")
        self.start_step = start_step
        self.save_path = save_path
        self._is_on = profile_type == "TORCH"
        self._settings = {"record_shapes": record_shape, "experimental_config": experimental_config, **kwargs}
        self._step = 0
        self._profile: torch_npu.profiler.profile | None = None

    def start(self) -> None:
        """Marks that a step begins."""
        if self._is_on and self._step == self.start_step:
            torch.npu.synchronize()
            self._profile = torch_npu.profiler.profile(**self._settings)
            self._profile.start()

    def end(self) -> None:
        """Marks that a step is done."""
        self._step += 1
        if self._profile is None:
            return
        self._profile.stop()
        os.makedirs(self.save_path, exist_ok=True)
        torch_npu.profiler.tensorboard_trace_handler(self.save_path)(self._profile)
        self._profile = None
