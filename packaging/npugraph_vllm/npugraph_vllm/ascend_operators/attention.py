# SPDX-License-Identifier: Apache-2.0
"""Attention to chosen keys."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from npugraph_vllm.ascend_operators.definitions import composite, result_count

npu = torch.ops.npu

# The value of attention_mode for keys whose first part is the value.
LATENT = 2


@composite("npu_sparse_flash_attention")
def sparse_flash_attention(
    query: Tensor, key: Tensor, value: Tensor, sparse_indices: Tensor, scale_value: float, **options: Any
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    options = {"attention_mode": LATENT, **options}
    results = npu.npu_sparse_flash_attention(query, key, value, sparse_indices, scale_value, **options)
    return results if result_count("npu_sparse_flash_attention") == len(results) else results[0]


@composite("npu_kv_quant_sparse_flash_attention_vllm")
def kv_quant_sparse_flash_attention(
    query: Tensor, return_softmax_lse: bool, **options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    if return_softmax_lse:
        raise NotImplementedError(
            "npu_kv_quant_sparse_flash_attention_vllm: npugraph-vllm has it without return_softmax_lse alone"
        )
    nothing = query.new_empty(0, dtype=torch.float32)
    return npu.npu_kv_quant_sparse_flash_attention(query, **options), nothing, nothing.clone()


@composite("npu_lightning_indexer")
def lightning_indexer(query: Tensor, key: Tensor, weights: Tensor, **options: Any) -> Tensor:
    return npu.npu_lightning_indexer(query, key, weights, **options)[0]


@composite("npu_lightning_indexer_quant")
def lightning_indexer_quant(query: Tensor, **options: Any) -> Tensor:
    return npu.npu_quant_lightning_indexer(query, **options)
