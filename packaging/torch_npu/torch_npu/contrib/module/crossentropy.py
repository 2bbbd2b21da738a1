# SPDX-License-Identifier: Apache-2.0
"""Cross entropy."""

import torch
from torch import nn

__all__ = ["LabelSmoothingCrossEntropy"]


class LabelSmoothingCrossEntropy(nn.Module):
    """The mean cross entropy against 1 - ``smooth_factor`` for the class and equal parts of the rest for all other
    classes."""

    def __init__(self, num_classes: int = 1000, smooth_factor: float = 0.0):
        super().__init__()
        self.on_value = 1.0 - smooth_factor
        self.off_value = smooth_factor / (num_classes - 1)

    def forward(self, pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logs = pred.log_softmax(-1)
        of_class = logs.gather(-1, target.long()[..., None]).squeeze(-1)
        of_others = logs.sum(-1) - of_class
        return -(self.on_value * of_class + self.off_value * of_others).mean()
