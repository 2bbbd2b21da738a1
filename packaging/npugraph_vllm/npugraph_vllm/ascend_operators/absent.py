# SPDX-License-Identifier: Apache-2.0
"""Operators that npugraph-vllm does not have: each is defined, and a call of it says which models need it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from npugraph_vllm.ascend_operators.definitions import is_defined, schemas, whole

# Parts of names of operators -> what needs these operators. The first that is part of a name counts.
_NEEDED_BY = {
    "_310": "Qwen3-Next on Ascend 310P",
    "sparse_kv_": "DeepSeek-V3.2 with the sparse offload of keys and values to the host",
    "fused_scatter_copy": "DeepSeek-V3.2 with the sparse offload of keys and values to the host",
    "sparse_attention_overlap": "DeepSeek-V3.2 with the sparse offload of keys and values to the host",
    "indexer_manage": "DeepSeek-V3.2 with the sparse offload of keys and values to the host",
    "situ_": "Kimi-K3",
    "attn_res_fwd": "Kimi-K3",
    "kda_": "Kimi Linear and Kimi-K3",
    "chunk_": "Qwen3-Next with kernels of Triton",
    "msa_": "MiniMax-M3",
    "k2q_csr": "MiniMax-M3",
    "sparse_attention_score": "MiniMax-M3",
    "eagle": "speculative decoding with EAGLE that drafts in parallel",
    "sign_bits_pack": "compressed communication between ranks",
    "dispatch": "mixtures of experts with the fused exchange (VLLM_ASCEND_ENABLE_FUSED_MC2)",
    "combine_prefill": "mixtures of experts with the fused exchange (VLLM_ASCEND_ENABLE_FUSED_MC2)",
    "transpose_kv_cache_by_block": "the transfer of keys and values between servers of different tensor parallelism",
    "swiglu_group_quant": "weights in MXFP4 or MXFP8 on Ascend 950",
    "": "DeepSeek-V4",
}


def _needed_by(name: str) -> str:
    return next(models for part, models in _NEEDED_BY.items() if part in name)


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(**_: Any) -> NoReturn:
        raise NotImplementedError(
            f"npugraph-vllm does not have the operator _C_ascend::{name}. It is needed by: {_needed_by(name)}"
        )

    return refuse


def define_absent() -> None:
    for name in schemas():
        if not is_defined(name):
            whole(name)(_refusal(name))
