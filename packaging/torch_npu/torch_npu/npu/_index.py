# SPDX-License-Identifier: Apache-2.0
"""Which device somebody means."""

from __future__ import annotations

import torch

from npugraph._C import device as _device

DeviceLike = int | str | torch.device | None
# Types of devices whose indices are meant for npu; scripts for CUDA add theirs.
types = {"npu"}


def device_index(device: DeviceLike) -> int:
    """The index of ``device``; the current device for None and for ``"npu"`` without an index.

    Raises ValueError for a device of another type, RuntimeError where there is no such device.
    """
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type not in types:
            raise ValueError(f"expected a device of npu, got {str(device)!r}")
        device = device.index
    return _device.checked_index(-1 if device is None else device)
