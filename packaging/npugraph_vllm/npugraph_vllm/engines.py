# SPDX-License-Identifier: Apache-2.0
"""How the processes of vLLM's engines end."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any


def end_with_client(module: ModuleType) -> None:
    """Changes ``vllm.v1.engine.core_client``: when Python exits, the client ends its engines, as its ``shutdown`` does.

    In the original, the manager of the processes ends them before the client knows that this is wanted, so the client
    logs an engine that died unexpectedly.
    """
    start = module.MPClient.start_engine_core_monitor

    @functools.wraps(start)
    def start_engine_core_monitor(self: Any) -> None:
        finalizer = getattr(self.resources.engine_manager, "_finalizer", None)
        if finalizer is not None:
            finalizer.atexit = False
        start(self)

    module.MPClient.start_engine_core_monitor = start_engine_core_monitor
