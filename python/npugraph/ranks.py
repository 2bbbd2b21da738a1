# SPDX-License-Identifier: Apache-2.0
"""The place of this process among those of torch.distributed."""

from __future__ import annotations

import torch


def rank() -> int:
    """The rank of this process; 0 without a process group."""
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0
