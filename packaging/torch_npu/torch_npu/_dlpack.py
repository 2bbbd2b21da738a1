# SPDX-License-Identifier: Apache-2.0
"""DLPack's protocol for tensors of npu. ``torch.from_dlpack(x)`` and other libraries ask a tensor for its device."""

from __future__ import annotations

import functools
from enum import IntEnum

import torch
from torch.overrides import has_torch_function_unary
from torch.utils.dlpack import DLDeviceType


def install() -> None:
    """Makes ``__dlpack_device__`` of npu tensors return kDLExtDev, DLPack's type for the device of an extension.
    torch's own method returns it only for a device name that no registered device has."""
    of_torch = torch.Tensor.__dlpack_device__

    @functools.wraps(of_torch)
    def __dlpack_device__(self: torch.Tensor) -> tuple[IntEnum, int]:
        if has_torch_function_unary(self) or not self.is_npu:
            return of_torch(self)
        return DLDeviceType.kDLExtDev, self.device.index

    torch.Tensor.__dlpack_device__ = __dlpack_device__
