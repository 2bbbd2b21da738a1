# SPDX-License-Identifier: Apache-2.0
"""Conditions and process groups for tests of several processes."""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


def skipIfUnsupportMultiNPU(npu_number_needed: int) -> Callable[[Callable], Callable]:
    """Decorator: skips the test if there are fewer devices."""

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def call(*args, **kwargs):
            if torch.npu.device_count() < npu_number_needed:
                raise unittest.SkipTest(f"only with {npu_number_needed} npu devices")
            return func(*args, **kwargs)

        return call

    return decorate


def init_pg(backend: str = "hccl", world_size: int = 1, rank: int = 0, file_name: str = "file://") -> None:
    """Makes the default process group, whose ranks meet in the file ``file_name``."""
    dist.init_process_group(backend, init_method=file_name, world_size=world_size, rank=rank)


def with_comms(func: Callable) -> Callable:
    """Decorator of a test method whose object has ``rank``, ``world_size`` and ``file_name``. The method runs on the
    device of its rank, in a process group of hccl."""

    @functools.wraps(func)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        torch.npu.set_device(self.rank % torch.npu.device_count())
        init_pg("hccl", self.world_size, self.rank, f"file://{self.file_name}")
        try:
            result = func(self, *args, **kwargs)
            dist.barrier()  # no rank leaves while others still talk to it
            return result
        finally:
            dist.destroy_process_group()

    return call
