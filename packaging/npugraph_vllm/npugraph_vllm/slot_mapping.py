# SPDX-License-Identifier: Apache-2.0
"""The slot of each token of a step in the cache. Newer versions of vllm-ascend compute it with a kernel of Triton."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch


class SlotMappingKernel:
    """Launched as the kernel of Triton is: ``kernel[(num_reqs + 1,)](arguments)``."""

    def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
        num_reqs = grid[0] - 1

        def launch(
            num_tokens: int,
            max_num_tokens: int,
            query_start_loc: torch.Tensor,
            positions: torch.Tensor,
            block_table: torch.Tensor,
            block_table_stride: int,
            block_size: int,
            slot_mapping: torch.Tensor,
            *,
            TOTAL_CP_WORLD_SIZE: int,
            PAD_ID: int,
            IS_CIRCULAR: bool = False,
            **tiles: Any,
        ) -> None:
            if TOTAL_CP_WORLD_SIZE != 1:
                raise NotImplementedError(
                    "npugraph-vllm has no slot mapping for context parallelism; use decode_context_parallel_size=1"
                )
            ends = query_start_loc[1 : num_reqs + 1]
            tokens = torch.arange(num_tokens, dtype=ends.dtype, device=ends.device)
            requests = torch.bucketize(tokens, ends, right=True).clamp_(max=num_reqs - 1)
            given = positions[:num_tokens]
            blocks = torch.zeros_like(given) if IS_CIRCULAR else given // block_size
            slots = block_table[requests, blocks] * block_size + given % block_size
            slot_mapping[:num_tokens].copy_(slots)
            slot_mapping[num_tokens:max_num_tokens].fill_(PAD_ID)

        return launch


def replace_kernel(module: ModuleType) -> None:
    """Puts the kernel of this file in the place of the one of a module of vllm-ascend."""
    module._compute_slot_mapping_kernel = SlotMappingKernel()


def separate_groups(module: ModuleType) -> None:
    """Makes ``vllm_ascend.worker.block_table`` launch the kernel for one group of caches after the other, as it does
    with context parallelism. Its kernel for all groups of a model takes addresses and no tensors."""
    tables = module.MultiGroupBlockTable
    create = tables.__init__

    @functools.wraps(create)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        create(self, *args, **kwargs)
        self._can_fuse_slot_mapping = False

    tables.__init__ = __init__
