# SPDX-License-Identifier: Apache-2.0
"""What the graph engine gets of a configuration: options of GE by their names."""

from __future__ import annotations

import os
import sys

import torch

from npugraph.ge.config.row import Row
from npugraph.ge.config.tree import CompilerConfig, holders


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
