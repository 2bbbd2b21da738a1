# SPDX-License-Identifier: Apache-2.0
"""Processes of one process group for tests, by default of hccl. They run the functions that they are sent."""

from __future__ import annotations

import datetime
import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


class Ranks:
    def __init__(self, size: int, folder: Path, backend: str = "hccl"):
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch", "torch._dynamo", "torch.distributed", "torch_npu"])
        self._pipes, self._processes = [], []
        for rank in range(size):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(rank, size, str(folder), backend, there), daemon=True)
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """Runs a function of a module in all processes. Returns their results, or raises AssertionError with all
        errors."""
        for pipe in self._pipes:
            pipe.send((function, args, kwargs))
        answers = self._answers()
        failures = [f"rank {rank}:\n{text}" for rank, (_, text) in enumerate(answers) if text]
        assert not failures, "\n".join(failures)
        return [value for value, _ in answers]

    def _answers(self) -> list[Any]:
        """Returns the answers in the order of ranks. Raises EOFError as soon as a process is gone, since others would
        wait for it."""
        answers: dict[Connection, Any] = {}
        while len(answers) < len(self._pipes):
            for pipe in wait([pipe for pipe in self._pipes if pipe not in answers]):
                answers[pipe] = pipe.recv()
        return [answers[pipe] for pipe in self._pipes]

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join()
            assert process.exitcode == 0


def _serve(rank: int, size: int, folder: str, backend: str, pipe: Connection) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        backend,
        store=dist.FileStore(f"{folder}/store", size),
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=60),
        device_id=torch.device("npu", rank % torch.npu.device_count()),
    )
    while (task := pipe.recv()) is not None:
        function, args, kwargs = task
        try:
            pipe.send((function(*args, **kwargs), ""))
        except BaseException:
            pipe.send((None, traceback.format_exc()))
    dist.destroy_process_group()
