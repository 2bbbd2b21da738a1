# SPDX-License-Identifier: Apache-2.0
"""The few names of Ascend's runtime that scripts import, on host memory. Functions return 0 on success, alone or as the
last value."""

import torch

from acl import rt

__all__ = ["finalize", "get_soc_name", "init", "rt"]


def init(config_path: str | None = None) -> int:
    """Does nothing and returns 0: the device is always ready."""
    return 0


def finalize() -> int:
    """Does nothing and returns 0: there is nothing to end."""
    return 0


def get_soc_name() -> str:
    """Returns the name of the product."""
    return torch.npu.get_device_name()
