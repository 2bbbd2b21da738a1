# SPDX-License-Identifier: Apache-2.0
"""The few names of Ascend's runtime that scripts import, over host memory. Functions return 0, alone or last, where all
went well."""

import torch

from acl import rt

__all__ = ["finalize", "get_soc_name", "init", "rt"]


def init(config_path: str | None = None) -> int:
    """The device is always ready."""
    return 0


def finalize() -> int:
    """There is nothing to end."""
    return 0


def get_soc_name() -> str:
    """The product's name."""
    return torch.npu.get_device_name()
