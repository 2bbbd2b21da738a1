# SPDX-License-Identifier: Apache-2.0
"""Availability of mixed precision."""

import torch


def amp_definitely_not_available() -> bool:
    """Whether there is no npu device, and so no mixed precision on it."""
    return not torch.npu.is_available()
