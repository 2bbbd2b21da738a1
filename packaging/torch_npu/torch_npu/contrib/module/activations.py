# SPDX-License-Identifier: Apache-2.0
"""Activations as modules."""

from torch import Tensor, nn

__all__ = ["Mish", "SiLU"]


class Mish(nn.Module):
    """The same as ``torch.nn.Mish``."""

    def __init__(self):
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.mish(x)


class SiLU(nn.Module):
    """The same as ``torch.nn.SiLU``."""

    def __init__(self):
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.silu(x)
