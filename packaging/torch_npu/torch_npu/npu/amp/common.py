# SPDX-License-Identifier: Apache-2.0
"""Whether mixed precision can be."""

import torch


def amp_definitely_not_available() -> bool:
    """Whether there is no npu device, and so no mixed precision on it."""
    return not torch.npu.is_available()
