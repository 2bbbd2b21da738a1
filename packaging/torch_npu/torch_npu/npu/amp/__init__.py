# SPDX-License-Identifier: Apache-2.0
"""``torch.npu.amp``: mixed precision by the names that scripts use."""

from __future__ import annotations

import functools

import torch

custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="npu")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="npu")

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast):
    """``torch.autocast("npu")``, in float16 where nothing else is said."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True):
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


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
