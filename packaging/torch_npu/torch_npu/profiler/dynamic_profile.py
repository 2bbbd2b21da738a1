# SPDX-License-Identifier: Apache-2.0
"""Profiling that a file switches on while a script runs.

    dynamic_profile.init("dir")    # reads dir/profiler_config.json, which it writes if it is not there
    for batch in loader:
        train(batch)
        dynamic_profile.step()     # reads the file again when it changed

A change of the file asks for one recording of ``active`` steps after ``warmup`` steps. The recording starts at the step
``start_step``, or at the next step if that is past.
"""

from __future__ import annotations

import json
import os
from typing import Any

from torch_npu.profiler.profiler import profile, tensorboard_trace_handler
from torch_npu.profiler.scheduler import Schedule

__all__ = ["init", "set_state", "start", "step"]

_NAME = "profiler_config.json"
_DEFAULTS: dict[str, Any] = {
    "activities": ["CPU", "NPU"],
    "prof_dir": "./",
    "record_shapes": False,
    "profile_memory": False,
    "with_stack": False,
    "with_flops": False,
    "with_modules": False,
    "active": 1,
    "warmup": 0,
    "start_step": 0,
}
_FLAGS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")


class _Recorder:
    """The state of recordings in this process."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.seen = -1  # time of the last change that was read, in nanoseconds
        self.steps = 0
        self.wanted: dict[str, Any] | None = None
        self.profile: profile | None = None
        self.left = 0

    def read_if_changed(self) -> None:
        if self.path is None or not os.path.exists(self.path):
            return
        changed = os.stat(self.path).st_mtime_ns
        if changed != self.seen:
            self.seen = changed
            self.want(self.path)

    def want(self, path: str) -> None:
        with open(path, encoding="utf-8") as file:
            given = json.load(file)
        if not isinstance(given, dict):
            raise ValueError(f"{path}: expected an object with keys such as {', '.join(_DEFAULTS)}")
        self.wanted = _DEFAULTS | given

    def begin(self) -> None:
        config = self.wanted
        if config is None or self.profile is not None or self.steps < config["start_step"]:
            return
        self.wanted = None
        self.left = config["warmup"] + config["active"]
        self.profile = profile(
            schedule=Schedule(wait=0, warmup=config["warmup"], active=config["active"], repeat=1),
            on_trace_ready=tensorboard_trace_handler(config["prof_dir"]),
            **{name: bool(config[name]) for name in _FLAGS},
        )
        self.profile.start()

    def advance(self) -> None:
        self.steps += 1
        if self.profile is None:
            return
        self.profile.step()
        self.left -= 1
        if self.left <= 0:
            self.profile.stop()
            self.profile = None


_recorder = _Recorder()


def init(path: str) -> None:
    """Watches ``path/profiler_config.json``. If there is no such file, writes one that asks for nothing yet."""
    os.makedirs(path, exist_ok=True)
    _recorder.path = os.path.join(path, _NAME)
    if not os.path.exists(_recorder.path):
        with open(_recorder.path, "w", encoding="utf-8") as file:
            json.dump(_DEFAULTS, file, indent=4)
    _recorder.seen = os.stat(_recorder.path).st_mtime_ns


def step() -> None:
    """Tells the recorder that one step of the script is done."""
    _recorder.advance()
    _recorder.read_if_changed()
    _recorder.begin()


def start(config_path: str | None = None) -> None:
    """Asks for a recording as the file ``config_path`` says, by default the file that ``init`` watches.

    Raises RuntimeError if there is neither.
    """
    path = config_path or _recorder.path
    if path is None:
        raise RuntimeError("dynamic_profile.start: give config_path, or call dynamic_profile.init first")
    _recorder.want(path)
    _recorder.begin()


def set_state(state_step: dict[str, int]) -> None:
    """Continues the count of steps from ``state_step["cur_step"]``, for scripts that continue another run. Raises
    ValueError without that key."""
    if "cur_step" not in state_step:
        raise ValueError(f"dynamic_profile.set_state: expected a dictionary with 'cur_step', got {state_step!r}")
    _recorder.steps = int(state_step["cur_step"])
