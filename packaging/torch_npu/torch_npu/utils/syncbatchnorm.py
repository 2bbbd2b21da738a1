# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all processes of a group. ``torch.nn.SyncBatchNorm`` calls it, also for
tensors of npu.

    SyncBatchNorm.apply(input, weight, bias, running_mean, running_var, eps, momentum, process_group, world_size)
"""

from typing import Any

import torch
from torch.nn.modules import _functions


class SyncBatchNorm(_functions.SyncBatchNorm):
    """torch's own function; the first argument of ``forward`` has Ascend's name."""

    @staticmethod
    def forward(
        self: Any,
        input_tensor: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        running_mean: torch.Tensor,
        running_var: torch.Tensor,
        eps: float,
        momentum: float,
        process_group: Any,
        world_size: int,
    ) -> torch.Tensor:
        return _functions.SyncBatchNorm.forward(
            self, input_tensor, weight, bias, running_mean, running_var, eps, momentum, process_group, world_size
        )
