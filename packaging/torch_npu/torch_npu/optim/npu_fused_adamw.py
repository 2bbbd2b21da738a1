# SPDX-License-Identifier: Apache-2.0
"""``torch.optim.AdamW`` for tensors of npu."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu.optim.npu_fused_optim_base import NpuFusedOptimizerBase, follow

__all__ = ["NpuFusedAdamW"]


class NpuFusedAdamW(NpuFusedOptimizerBase, torch.optim.AdamW):
    """``torch.optim.AdamW``, which updates many tensors at once."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ):
        follow(torch.optim.AdamW, locals())
