# SPDX-License-Identifier: Apache-2.0
"""``torch.autocast("npu")`` under the names of ``torch.npu.amp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast_mode.autocast):
    """``torch.autocast("npu")``, by default in float16."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True):
        super().__init__("npu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    def __enter__(self) -> Any:
        return super().__enter__()

    def __exit__(self, exc_type: Any, exc_val: Any, exc_tb: Any) -> Any:
        return super().__exit__(exc_type, exc_val, exc_tb)

    def __call__(self, func: Callable) -> Callable:
        return super().__call__(func)


def custom_fwd(fwd: Callable | None = None, *, cast_inputs: torch.dtype | None = None) -> Callable:
    """Calls ``torch.amp.custom_fwd`` for npu."""
    return torch.amp.custom_fwd(fwd, device_type="npu", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable) -> Callable:
    """Calls ``torch.amp.custom_bwd`` for npu."""
    return torch.amp.custom_bwd(bwd, device_type="npu")
