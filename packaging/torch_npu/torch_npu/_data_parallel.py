# SPDX-License-Identifier: Apache-2.0
"""The functions of several devices that ``torch.nn.DataParallel`` and ``torch.nn.parallel.comm`` call. torch has them
only for CUDA."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

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
    """Adds the functions that torch lacks. Those of a torch that was built for CUDA do what they did where CUDA has a
    device."""
    for function in (
        _broadcast,
        _broadcast_out,
        _broadcast_coalesced,
        _scatter,
        _scatter_out,
        _gather,
        _gather_out,
    ):
        setattr(torch._C, function.__name__, _unless_cuda(function, getattr(torch._C, function.__name__, None)))
    # This check compares the devices; those of npu are all alike.
    module = sys.modules["torch.nn.parallel.data_parallel"]
    module._check_balance = _unless_cuda(lambda device_ids: None, module._check_balance)


def _unless_cuda(own: Callable[..., Any], of_cuda: Callable[..., Any] | None) -> Callable[..., Any]:
    @functools.wraps(own)
    def call(*args: Any) -> Any:
        # torch.cuda itself may stand for npu (contrib.transfer_to_npu).
        has_cuda = of_cuda is not None and torch.backends.cuda.is_built() and torch._C._cuda_getDeviceCount() > 0
        return (of_cuda if has_cuda else own)(*args)

    return call
