# SPDX-License-Identifier: Apache-2.0
"""The functions of several devices that ``torch.nn.DataParallel`` and ``torch.nn.parallel.comm`` call. torch has them
only for CUDA."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch

_ON_CPU = -1


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    return [tensor.to(torch.device("npu", index)) for index in devices]


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    for one in out:
        one.copy_(tensor)
    return out


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    return [[tensor.to(torch.device("npu", index)) for tensor in tensors] for index in devices]


def _scatter(
    tensor: torch.Tensor, devices: Sequence[int], sizes: Sequence[int] | None, dim: int, streams: object
) -> list[torch.Tensor]:
    parts = tensor.chunk(len(devices), dim) if sizes is None else tensor.split(list(sizes), dim)
    return [part.to(torch.device("npu", index)) for part, index in zip(parts, devices, strict=False)]


def _scatter_out(
    tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int, streams: object
) -> Sequence[torch.Tensor]:
    for one, part in zip(out, tensor.split([one.size(dim) for one in out], dim), strict=True):
        one.copy_(part)
    return out


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination: int) -> torch.Tensor:
    device = torch.device("cpu") if destination == _ON_CPU else torch.device("npu", destination)
    return torch.cat([tensor.to(device) for tensor in tensors], dim)


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    return out.copy_(_gather(tensors, dim, out.get_device()))


def install() -> None:
    """Adds the functions that torch lacks. A torch that was built for CUDA keeps its own."""
    for function in (
        _broadcast,
        _broadcast_out,
        _broadcast_coalesced,
        _scatter,
        _scatter_out,
        _gather,
        _gather_out,
    ):
        if not hasattr(torch._C, function.__name__):
            setattr(torch._C, function.__name__, function)
    if not torch.backends.cuda.is_built():
        # This check compares the devices; those of npu are all alike.
        sys.modules["torch.nn.parallel.data_parallel"]._check_balance = lambda device_ids: None
