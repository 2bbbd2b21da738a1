# SPDX-License-Identifier: Apache-2.0
"""Indices of devices that callers name."""

from __future__ import annotations

import torch

from npugraph import _ascend as _device

DeviceLike = int | str | torch.device | None
# Types of devices whose indices mean devices of npu. Scripts for CUDA add theirs.
types = {"npu"}


def device_index(device: DeviceLike) -> int:
    """Returns the index of ``device``. For None, and for ``"npu"`` without an index, it is the current device.

    Raises ValueError for a device of another type, RuntimeError if there is no such device.
    """
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type not in types:
            raise ValueError(f"expected a device of npu, got {str(device)!r}")
        device = device.index
    return _device.checked_index(-1 if device is None else device)
