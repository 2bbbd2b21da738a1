# SPDX-License-Identifier: Apache-2.0
"""Conditions and process groups of tests of several processes."""

from __future__ import annotations

import functools
import unittest
from collections.abc import Callable

import torch
import torch.distributed as dist


def skipIfUnsupportMultiNPU(npu_number_needed: int) -> Callable[[Callable], Callable]:
    """Decorator: skips the test where there are fewer devices."""

    def decorate(func: Callable) -> Callable:
        @functools.wraps(func)
        def call(*args, **kwargs):
            if torch.npu.device_count() < npu_number_needed:
                raise unittest.SkipTest(f"only with {npu_number_needed} npu devices")
            return func(*args, **kwargs)

        return call

    return decorate


def init_pg(backend: str = "hccl", world_size: int = 1, rank: int = 0, file_name: str = "file://") -> None:
    """Makes the default process group, which meets in the file ``file_name``."""
    dist.init_process_group(backend, init_method=file_name, world_size=world_size, rank=rank)
