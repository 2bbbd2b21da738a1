# SPDX-License-Identifier: Apache-2.0
"""``torch.optim.Adadelta`` for tensors of npu."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu.optim.npu_fused_optim_base import NpuFusedOptimizerBase, follow

__all__ = ["NpuFusedAdadelta"]


class NpuFusedAdadelta(NpuFusedOptimizerBase, torch.optim.Adadelta):
    """``torch.optim.Adadelta``, which updates many tensors at once."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
    ):
        follow(torch.optim.Adadelta, locals())
