# SPDX-License-Identifier: Apache-2.0
"""What becomes of a configuration: options of the graph engine by their names, those of backend npugraph_ex, and the
warning of options without effect."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import torch

from npugraph.ge.config.row import GE, Row
from npugraph.ge.config.tree import CompilerConfig, Holder, holders
from npugraph.warning_kinds import NpugraphWarning


def ge_options(config: CompilerConfig, *, on_device: bool = True) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the options of one graph (local) and those of the process (global).

    ``on_device``: whether the graph runs on npu. Options about the inputs and results of a graph (``frozenInput``,
    ``ge.inputHintShape``, ``ge.exec.outputReuseMemIndexes``, ...) are not among them, because a configuration does not
    know these. Raises ``ValueError`` if ``ASCEND_DEVICE_ID`` is needed and is no number.
    """
    local = {"ge.exec.atomicCleanPolicy": "1", "ge.exec.memoryOptimizationPolicy": "MemoryPriority"}
    if on_device:
        local["ge.exec.reuseZeroCopyMemory"] = "1"
    of_process = {"ge.exec.staticMemoryPolicy": "2", "ge.opSelectImplmode": "high_precision", **settings_of_torch()}
    for holder in holders(config).values():
        engine = holder.row.engine
        if engine and _travels(holder.row, config):
            (of_process if engine.of_process else local)[engine.name] = engine.text(holder.value)
    return local, of_process


def _travels(row: Row, config: CompilerConfig) -> bool:
    assert row.engine is not None
    value = holders(config)[row.path].value
    if row.engine.when:
        return holders(config)[row.engine.when].value and value != ""
    return row.engine.always or value != row.default


def settings_of_torch() -> dict[str, str]:
    """The options of the process that come from settings of torch and torch_npu, and the current device of this
    thread. Raises ``ValueError`` if ``ASCEND_DEVICE_ID`` is needed and is no number."""
    npu = torch.npu if "torch_npu" in sys.modules else None
    device = str(npu.current_device()) if npu else _device_of_environment()
    deterministic = torch.are_deterministic_algorithms_enabled()
    level = npu.get_deterministic_level() if npu else int(deterministic)
    # The first digit is for convolutions, the second for products. These are the defaults of torch_npu.
    convolutions, products = (npu.conv.allow_hf32, npu.matmul.allow_hf32) if npu else (True, False)
    return {
        "ge.exec.allow_hf32": f"{convolutions:d}{products:d}",
        "ge.deterministic": f"{deterministic:d}",
        "ge.deterministicLevel": str(level),
        "ge.exec.deviceId": device,
        "ge.session_device_id": device,
        "ge_run_with_torch_npu": "1" if npu else "0",
    }


def _device_of_environment() -> str:
    device = os.environ.get("ASCEND_DEVICE_ID", "0")
    if not (device.isascii() and device.isdecimal()):
        raise ValueError(f"ASCEND_DEVICE_ID takes the index of a device, got {device!r}")
    return device


def npugraph_options(config: CompilerConfig) -> dict[str, Any]:
    """Returns the options of ``npugraph.options`` that a configuration sets, as ``npugraph.options.parse`` takes them:
    those that the user set, that mean something for the mode and that act there.

    Raises ``ValueError`` if two options of the tree set the same one to different values.
    """
    mode = config.mode.value
    setters: dict[str, Holder] = {}
    for holder in holders(config).values():
        row = holder.row
        if not (row.option and holder.given and mode in row.modes and row.state(mode) == "acts"):
            continue
        if mode == GE and row.engine:  # the engine does it
            continue
        other = setters.setdefault(row.option, holder)
        if _value(other) != _value(holder):
            raise ValueError(
                f"options of torchair.CompilerConfig contradict each other: {other.row.path}={other!r} and "
                f"{row.path}={holder!r} both set option {row.option!r} of backend 'npugraph_ex'"
            )
    return {option: _value(holder) for option, holder in setters.items()}


def _value(holder: Holder) -> Any:
    return holder.row.to_option(holder.value)


def irrelevant_options(config: CompilerConfig) -> list[str]:
    """Returns the paths of options that were set and mean nothing for the mode. An option that was set to what it is
    anyway asks for nothing, so it is not among them."""
    return [row.path for row in _irrelevant(config)]


def recorded_options(config: CompilerConfig) -> list[str]:
    """Returns the paths of options that were set, mean something for the mode and have no effect here. An option that
    asks for what the engine does in any case is not among them."""
    return [row.path for row in _recorded(config)]


def warn_of_irrelevant(config: CompilerConfig, stacklevel: int = 2) -> None:
    """Gives one ``NpugraphWarning``, which is a ``UserWarning``, that names all options without effect: those that mean
    nothing for the mode, and those that are only recorded, with the reason. Gives none if there are no such options.

    ``stacklevel`` is that of ``warnings.warn``: 2 stands for the line that calls this function.
    """
    ignored = [f"{row.path} (of {' and '.join(map(repr, row.modes))})" for row in _irrelevant(config)]
    texts = [f"mode {config.mode.value!r} ignores {', '.join(ignored)}"] if ignored else []
    texts += [f"{row.path} is recorded and has no effect: {row.no_effect}" for row in _recorded(config)]
    if texts:
        warnings.warn(f"torchair.CompilerConfig: {'; '.join(texts)}", NpugraphWarning, stacklevel=stacklevel)


def _irrelevant(config: CompilerConfig) -> list[Row]:
    return [holder.row for holder in _changed(config) if config.mode.value not in holder.row.modes]


def _recorded(config: CompilerConfig) -> list[Row]:
    mode = config.mode.value
    return [
        holder.row
        for holder in _changed(config)
        if mode in holder.row.modes and holder.row.state(mode) == "recorded" and holder.value not in holder.row.granted
    ]


def _changed(config: CompilerConfig) -> list[Holder]:
    return [holder for holder in holders(config).values() if not holder.is_default()]
