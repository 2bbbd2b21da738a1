# SPDX-License-Identifier: Apache-2.0
"""The state of ``torch.autocast("npu")`` in the calling thread."""

import torch


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Returns the types that autocast may compute in."""
    return [torch.float16, torch.bfloat16]


def is_autocast_enabled() -> bool:
    """Whether autocast is on."""
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enable: bool) -> None:
    """Turns autocast on or off."""
    torch.set_autocast_enabled("npu", enable)


def get_autocast_dtype() -> torch.dtype:
    """Returns the type that autocast computes in."""
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Sets the type that autocast computes in."""
    torch.set_autocast_dtype("npu", dtype)
