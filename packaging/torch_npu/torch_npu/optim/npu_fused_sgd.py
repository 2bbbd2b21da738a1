# SPDX-License-Identifier: Apache-2.0
"""``torch.optim.SGD`` for tensors of npu."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from torch_npu.optim.npu_fused_optim_base import REQUIRED, NpuFusedOptimizerBase, follow

__all__ = ["NpuFusedSGD"]

MOMENTUM_MIN = DAMPENING_DEFAULT = WEIGHT_DECAY_MIN = 0.0


class NpuFusedSGD(NpuFusedOptimizerBase, torch.optim.SGD):
    """``torch.optim.SGD``, which updates many tensors at once. Raises ValueError if ``lr`` is not given."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = REQUIRED,
        momentum: float = MOMENTUM_MIN,
        dampening: float = DAMPENING_DEFAULT,
        weight_decay: float = WEIGHT_DECAY_MIN,
        nesterov: bool = False,
    ):
        follow(torch.optim.SGD, locals())
