# SPDX-License-Identifier: Apache-2.0
"""How the processes of vLLM's engines, and the threads of their clients, end."""

from __future__ import annotations

import functools
import threading
from types import ModuleType
from typing import Any


def mend_ends(module: ModuleType) -> None:
    """Changes how clients of ``vllm.v1.engine.core_client`` end."""
    _end_with_client(module.MPClient)
    _wait_for_outputs(module.SyncMPClient, module.BackgroundResources)


def _end_with_client(client: Any) -> None:
    """When Python exits, the client ends its engines, as its ``shutdown`` does.

    In the original, the manager of the processes ends them before the client knows that this is wanted, so the client
    logs an engine that died unexpectedly.
    """
    start = client.start_engine_core_monitor

    @functools.wraps(start)
    def start_engine_core_monitor(self: Any) -> None:
        finalizer = getattr(self.resources.engine_manager, "_finalizer", None)
        if finalizer is not None:
            finalizer.atexit = False
        start(self)

    client.start_engine_core_monitor = start_engine_core_monitor


def _wait_for_outputs(client: Any, resources: Any) -> None:
    """A client that ends waits for its thread that receives outputs.

    The original tells the thread to end, and goes on. The thread then frees the tensors of the last outputs, for which
    torch releases the GIL. If Python has begun to exit, it terminates a thread that takes the GIL again, and here the
    whole process, because the thread is within a destructor.
    """
    init, end = client.__init__, resources.__call__

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.resources.output_thread = self.output_queue_thread

    @functools.wraps(end)
    def __call__(self: Any) -> None:
        end(self)
        thread = getattr(self, "output_thread", None)
        if thread not in (None, threading.current_thread()):
            thread.join()

    client.__init__, resources.__call__ = __init__, __call__
