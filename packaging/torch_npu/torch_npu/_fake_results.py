# SPDX-License-Identifier: Apache-2.0
"""Fake results of operators for which torch asks for the kind of device. Kernels of cpu run on tensors of npu, so that
sizes, strides and types are those of cpu."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

aten = torch.ops.aten

# Functions of tensors that return new tensors.
AS_ON_CPU = frozenset(
    (
        # Statistics that are saved have the type of the input, and those of inference have no elements.
        *(aten.native_layer_norm.default, aten.native_group_norm.default, aten.native_batch_norm.default),
        *(aten._native_batch_norm_legit.no_stats, aten._native_batch_norm_legit_functional.default),
        *(aten._native_batch_norm_legit_no_training.default, aten._batch_norm_with_update_functional.default),
        # A sum needs no map from indices to bags.
        *(aten._embedding_bag.default, aten._embedding_bag_forward_only.default),
        aten.nonzero_static.default,  # row-major
        *(aten.pixel_shuffle.default, aten.pixel_unshuffle.default),  # memory formats
    )
)


def install() -> None:
    """Makes fake tensors of npu follow. torch decomposes some of the operators before it asks for a fake result that
    was registered, so that this is where all calls come by."""
    dispatch = FakeTensorMode._dispatch_impl

    @functools.wraps(dispatch)
    def call(self: FakeTensorMode, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in AS_ON_CPU and (device := _npu_among(args, kwargs)) is not None:
            return _as_on_cpu(self, func, device, args, kwargs)
        return dispatch(self, func, types, args, kwargs)

    FakeTensorMode._dispatch_impl = call


def _npu_among(*arguments: Any) -> torch.device | None:
    tensors = (leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor))
    return next((tensor.device for tensor in tensors if tensor.device.type == "npu"), None)


def _as_on_cpu(mode: FakeTensorMode, op: Any, device: torch.device, args: Any, kwargs: Any) -> Any:
    def on(device: torch.device, value: Any) -> Any:
        def moved(tensor: torch.Tensor) -> torch.Tensor:
            return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)

        return pytree.tree_map_only(torch.Tensor, moved, value)

    with mode:
        given, named = on(torch.device("cpu"), (args, kwargs))
        return on(device, op(*given, **named))
