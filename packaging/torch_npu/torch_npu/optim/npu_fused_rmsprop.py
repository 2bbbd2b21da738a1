# SPDX-License-Identifier: Apache-2.0
"""``torch.optim.RMSprop`` for tensors of npu."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu.optim.npu_fused_optim_base import NpuFusedOptimizerBase, follow

__all__ = ["NpuFusedRMSprop"]


class NpuFusedRMSprop(NpuFusedOptimizerBase, torch.optim.RMSprop):
    """``torch.optim.RMSprop``, which updates many tensors at once."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
    ):
        follow(torch.optim.RMSprop, locals())
