# SPDX-License-Identifier: Apache-2.0
"""Scaling of losses."""

from __future__ import annotations

import torch

from torch_npu.npu import utils


class GradScaler(torch.amp.GradScaler):
    """Scales losses so that gradients of float16 do not vanish.

    With ``dynamic=False`` the scale stays ``init_scale``.
    """

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
    ):
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._dynamic = dynamic

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Adapts the scale to whether gradients overflowed, or sets it to ``new_scale``."""
        if new_scale is None and not self._dynamic and self.is_enabled():
            new_scale = self.get_scale()
        super().update(new_scale)

    get_npu_overflow_flag = staticmethod(utils.get_npu_overflow_flag)
    clear_npu_overflow_flag = staticmethod(utils.clear_npu_overflow_flag)
