# SPDX-License-Identifier: Apache-2.0
"""Memory and streams."""

import torch

__all__ = ["erase_stream"]


def erase_stream(tensor: torch.Tensor, stream: torch.Stream) -> None:
    """Takes back ``tensor.record_stream(stream)``. Work is done when its call returns, so nothing is recorded.

    Raises TypeError where ``tensor`` is no tensor of npu.
    """
    if not isinstance(tensor, torch.Tensor) or not tensor.is_npu:
        raise TypeError(f"erase_stream: tensor is {type(tensor).__name__}, and must be a tensor of npu")
