# SPDX-License-Identifier: Apache-2.0
"""The place of this process among those of torch.distributed."""

from __future__ import annotations

import torch


def rank() -> int:
    """The rank of this process; 0 without a process group."""
    return torch.distributed.get_rank() if _has_group() else 0


def folder_name() -> str:
    """The name of the folder for dumps of this process, beside those of other ranks."""
    size = torch.distributed.get_world_size() if _has_group() else 1
    return f"worldsize{size}_global_rank{rank()}"


def _has_group() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
