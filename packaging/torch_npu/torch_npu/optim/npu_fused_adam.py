# SPDX-License-Identifier: Apache-2.0
"""``torch.optim.Adam`` for tensors of npu."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu.optim.npu_fused_optim_base import NpuFusedOptimizerBase, follow

__all__ = ["NpuFusedAdam"]


class NpuFusedAdam(NpuFusedOptimizerBase, torch.optim.Adam):
    """``torch.optim.Adam``, which updates many tensors at once."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
    ):
        follow(torch.optim.Adam, locals())
