# SPDX-License-Identifier: Apache-2.0
"""Memory that streams use."""

import torch

__all__ = ["erase_stream"]


def erase_stream(tensor: torch.Tensor, stream: torch.Stream) -> None:
    """Takes back ``tensor.record_stream(stream)``, which has recorded nothing, because work is done when its call
    returns.

    Raises TypeError unless ``tensor`` is a tensor of npu.
    """
    if not isinstance(tensor, torch.Tensor) or not tensor.is_npu:
        raise TypeError(f"erase_stream: tensor is {type(tensor).__name__}, and must be a tensor of npu")
