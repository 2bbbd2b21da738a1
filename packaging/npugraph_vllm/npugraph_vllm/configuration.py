# SPDX-License-Identifier: Apache-2.0
"""Settings of vLLM: ``npugraph_ex_config`` of ``additional_config`` does what it says."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from typing import Any

_KEY = "npugraph_ex_config"
_SUCCESSOR = "ascend_compilation_config"
# Names of the settings in the key -> names in its successor.
_RENAMED = {"enable": "enable_npugraph_ex", "enable_static_kernel": "enable_static_kernel"}


def install() -> None:
    """Makes vLLM's arguments pass through the functions below."""
    from vllm.engine.arg_utils import EngineArgs

    create = EngineArgs.create_engine_config

    @functools.wraps(create)
    def create_engine_config(self: Any, *args: Any, **kwargs: Any) -> Any:
        adapt(self)
        schedule_in_turn(self)
        share_cores(self)
        return create(self, *args, **kwargs)

    EngineArgs.create_engine_config = create_engine_config


def adapt(arguments: Any) -> None:
    """Changes the ``EngineArgs`` in place. With ``enable`` true, decode steps are captured whole unless the user asked
    for another mode: vllm-ascend's own default, PIECEWISE, switches npugraph_ex off. Where vllm-ascend knows only the
    successor of the key, the settings move there."""
    settings = _settings(arguments)
    if settings is None:
        return
    if settings.get("enable", False):
        _capture_whole_steps(arguments)
    if not _reads_key():
        _move(arguments, settings)


def schedule_in_turn(arguments: Any) -> None:
    """Has vLLM schedule a step when the last one is over, unless the user asks for another order. The device computes
    while it is called, so a step that is scheduled in advance delays the tokens of the one before it."""
    if arguments.async_scheduling is None:
        arguments.async_scheduling = False


def share_cores(arguments: Any) -> None:
    """Gives each worker of this host its part of the cores, unless the user or Ray says how many threads it has. The
    workers compute on the cores, and vLLM would give each of them one thread or all of them. Takes effect in processes
    that are started later."""
    # Threads of OpenMP that wait for work would take the cores from the other processes of the server.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    workers = (
        arguments.tensor_parallel_size
        * arguments.pipeline_parallel_size
        // arguments.nnodes
        * (arguments.data_parallel_size_local or arguments.data_parallel_size)
    )
    if workers > 1 and arguments.distributed_executor_backend != "ray":
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // workers)))


def _settings(arguments: Any) -> Mapping[str, Any] | None:
    if isinstance(arguments.additional_config, str):
        arguments.additional_config = json.loads(arguments.additional_config)
    return (arguments.additional_config or {}).get(_KEY)


def _capture_whole_steps(arguments: Any) -> None:
    from vllm.config.compilation import CUDAGraphMode
    from vllm.logger import init_logger

    compilation = arguments.compilation_config
    asked = arguments.enforce_eager or compilation.mode is not None or compilation.cudagraph_mode is not None
    if asked:
        return
    compilation.cudagraph_mode = CUDAGraphMode.FULL_DECODE_ONLY
    # A logger of vLLM's own, because vLLM configures no others.
    init_logger("vllm.npugraph").info(
        "%s.enable captures whole decode steps: cudagraph_mode is FULL_DECODE_ONLY, because npugraph_ex is off in "
        "PIECEWISE, the default of vllm-ascend. Set compilation_config to have another.",
        _KEY,
    )


def _reads_key() -> bool:
    from vllm_ascend import ascend_config

    return hasattr(ascend_config, "NpugraphExConfig")


def _move(arguments: Any, settings: Mapping[str, Any]) -> None:
    unknown = [name for name in settings if name not in _RENAMED]
    if unknown:
        raise ValueError(
            f"additional_config[{_KEY!r}] has no setting {unknown[0]!r}; it has {', '.join(map(repr, _RENAMED))}. "
            f"This vllm-ascend has more of them in {_SUCCESSOR!r}."
        )
    moved = {_RENAMED[name]: value for name, value in settings.items()}
    kept = {name: value for name, value in arguments.additional_config.items() if name != _KEY}
    kept[_SUCCESSOR] = moved | kept.get(_SUCCESSOR, {})
    arguments.additional_config = kept
