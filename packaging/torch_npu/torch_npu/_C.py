# SPDX-License-Identifier: Apache-2.0
"""Names that Ascend's package has in its extension module."""

import torch
from npugraph._C import device

_NPUGraph = device.CapturedGraph
_NPUTaskGroupHandle = device.TaskGroup


def _weak_ref_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor over the memory of ``tensor``, which it keeps: a graph knows by that what can still be seen."""
    return tensor.detach()
