# SPDX-License-Identifier: Apache-2.0
"""A call of each operator of the npu namespaces that writes arguments."""

from __future__ import annotations

from typing import Any

import torch

from tests.python.device.attention import test_npu_mla as mla
from tests.python.device.attention import test_npu_mla_preprocess as preprocess
from tests.python.device.npu_operators import integers, normal
from tests.python.device.operators import test_npu_delta_rule as delta_rule
from tests.python.device.products import test_npu_compression as compression

SIZES = {"num_kv_heads": 2, "num_heads": 4, "scale_value": 0.3}
SCALES = tuple(SIZES.values())
LATENT = (4, 0.3, 1)  # heads, scale, heads of keys
TABLE = torch.tensor([[5, 0, 3], [2, 6, 1], [4, 7, 8]], dtype=torch.int32)
CONTEXT, ROWS, ENDS = [7, 2, 9], [2, 1, 4], torch.tensor([2, 2, 5])
NZ = 29


def zeros(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(size, dtype=dtype)


def cache(heads: int = 2, size: int = 8, seed: int = 1) -> torch.Tensor:
    return normal(9, 3, heads, size, seed=seed)


QUERY, PACKED, DECODE = normal(3, 4, 8), normal(7, 4, 8), (normal(3, 4, 8), cache(), cache(seed=2))
CONTEXTS, LENGTHS = torch.tensor(CONTEXT), torch.tensor(ROWS)
MASK = torch.ones(2, 2).triu(1)
POSITIONS = torch.ones(9, 9).triu(1) * -10000.0
CODES = integers(-9, 9, 9, 3, 2, 8, dtype=torch.int8)
LATENTS = (normal(3, 4, 12), normal(3, 4, 4, seed=1), cache(1, 12), cache(1, 4, seed=2), TABLE, CONTEXT, *LATENT)
RING = tuple(normal(7, heads, size, seed=i) for i, (heads, size) in enumerate([(4, 8), (4, 4), (2, 8), (2, 4), (2, 8)]))
DENSE = tuple(normal(2, 5, 16, seed=i) for i in range(3))
BYTES = tuple(
    normal(*size, seed=i).to(torch.float8_e4m3fn).view(torch.uint8) for i, size in enumerate([(4, 5), (5, 6)])
)
NORMED = (normal(3, 8), normal(8, seed=1))
SCALE_8, OFFSET_8 = torch.tensor([0.02]), torch.tensor([3], dtype=torch.int8)
TOKENS = (normal(3, 2, 4), normal(3, 2, 4, seed=1))
PAGES = (normal(4, 4, 2, 4, seed=2), normal(4, 4, 2, 4, seed=3))
SLOTS = torch.tensor([3, 0, 9])
ADAM = [normal(3, 4), normal(3, 4, seed=1), normal(3, 4, seed=2).abs()]

Call = tuple[tuple[Any, ...], dict[str, Any]]


def call(*args: Any, **kwargs: Any) -> Call:
    return args, kwargs


def results_of_fusion() -> list[torch.Tensor]:
    return list(torch.ops.npu.npu_fusion_attention_v3(*DENSE, 2, "BSH"))


def encoded(x: torch.Tensor) -> list[torch.Tensor]:
    """Returns pdf, mantissa, fixed and var of npu_hans_encode."""
    return list(torch.ops.npu.npu_hans_encode.out(x, True, out=compression.buffers(x)))


PDF, *CODE = encoded(normal(24, 64))

CALLS: dict[str, Call] = {
    "atb::_npu_flash_attention": call(
        *(normal(7, 32), normal(7, 2, 8, seed=1), normal(7, 2, 8, seed=2), POSITIONS, LENGTHS, 0.3, 4, 2, zeros(7, 32))
    ),
    "atb::_npu_flash_attention_prefix_v2.out": call(
        PACKED, *DECODE[1:], TABLE, MASK, ROWS, CONTEXT, **SIZES, out=zeros(7, 4, 8)
    ),
    "atb::_npu_flash_attention_qlens": call(
        PACKED, *DECODE[1:], TABLE, MASK, LENGTHS, CONTEXTS, *SCALES, zeros(7, 4, 8)
    ),
    "atb::_npu_flash_attention_unpad": call(
        *(normal(7, 32), normal(7, 2, 8, seed=1), normal(7, 2, 8, seed=2), LENGTHS, 0.3, 4, 2, zeros(7, 32))
    ),
    "atb::_npu_flash_attention_v2.out": call(
        *(normal(7, 4, 8), normal(7, 2, 8, seed=1), normal(7, 2, 8, seed=2), ROWS),
        **{"mask": POSITIONS, "mask_type": 1, **SIZES},
        out=zeros(7, 4, 8),
    ),
    "atb::_npu_matmul_add_fp32": call(normal(6, 3).half(), normal(6, 4, seed=1).half(), normal(3, 4, seed=2)),
    "atb::_npu_paged_attention": call(*DECODE, *SCALES, TABLE, CONTEXTS, zeros(3, 4, 8)),
    "atb::_npu_paged_attention_get_workspace": call(*DECODE, *SCALES, TABLE, CONTEXTS, zeros(3, 4, 8)),
    "atb::_npu_paged_attention_mla": call(
        normal(3, 4, 16), cache(1, 16), 1, 4, 0.3, TABLE, CONTEXTS, 12, zeros(3, 4, 12)
    ),
    "atb::_npu_paged_attention_quant": call(
        *(QUERY, CODES, CODES, *SCALES, TABLE, CONTEXTS, 1, 0, normal(16), normal(16, seed=1), zeros(3, 4, 8))
    ),
    "atb::_npu_paged_attention_splitfuse": call(
        PACKED, *DECODE[1:], TABLE, CONTEXTS, MASK, LENGTHS, *SCALES, zeros(7, 4, 8)
    ),
    "atb::_npu_paged_attention_v2.out": call(
        *DECODE[:2], TABLE, CONTEXT, value_cache=DECODE[2], **SIZES, out=zeros(3, 4, 8)
    ),
    "atb::_npu_paged_attention_v2_get_workspace": call(
        *DECODE[:2], TABLE, CONTEXT, value_cache=DECODE[2], **SIZES, out=zeros(3, 4, 8)
    ),
    "atb::_npu_quant_rms_norm": call(
        *NORMED, normal(8, seed=2), SCALE_8, OFFSET_8, output=zeros(3, 8, dtype=torch.int8)
    ),
    "atb::_npu_quantize_per_tensor": call(normal(3, 8), SCALE_8, OFFSET_8, zeros(3, 8, dtype=torch.int8)),
    "atb::_npu_reshape_and_cache": call(*TOKENS, *PAGES, SLOTS),
    "atb::_npu_reshape_and_cache_siso": call(TOKENS[0], PAGES[0], SLOTS),
    "atb::_npu_rotary_embedding": call(
        integers(0, 10, 5), normal(5, 24), normal(5, 16, seed=1), 8, normal(10, 4, seed=2), True
    ),
    "atb::npu_fused_add_topk_div.out": call(
        *(normal(5, 16), normal(16, seed=1)),
        **{"group_num": 4, "group_topk": 2, "n": 2, "k": 3},
        y=zeros(5, 3),
        indices=zeros(5, 3, dtype=torch.int32),
    ),
    "atb::npu_multi_head_latent_attention.lse_out": call(*LATENTS, True, output=zeros(3, 4, 12), lse=zeros(3, 4, 1)),
    "atb::npu_multi_head_latent_attention.out": call(*LATENTS, output=zeros(3, 4, 12)),
    "atb::npu_paged_cache_load.out": call(
        cache(), cache(seed=2), TABLE, LENGTHS, key=zeros(7, 2, 8), value=zeros(8, 2, 8)
    ),
    "atb::npu_ring_mla.out": call(
        *(*RING, torch.ones(16, 16).triu(1), torch.tensor(ROWS, dtype=torch.int32), 4, 2),
        **{"qk_scale": 0.3, "mask_type": "mask_type_triu", "calc_type": "calc_type_first_ring"},
        output=zeros(7, 4, 8),
        softmax_lse=zeros(4, 7),
    ),
    "atb::npu_self_attention_prefix_encoder.out": call(
        PACKED, *DECODE[1:], TABLE, ROWS, CONTEXT, 4, 0.3, 2, mask=POSITIONS, output=zeros(7, 4, 8)
    ),
    "npu::_npu_index_add_": call(normal(4, 3), torch.tensor([2, 0]), normal(2, 3, seed=1), alpha=2),
    "npu::_quantize_per_channel_impl.out": call(
        *(normal(3, 4), torch.full((4,), 0.02), torch.arange(4), 1, torch.qint8), result=zeros(3, 4, dtype=torch.int8)
    ),
    "npu::_quantize_per_tensor_impl.out": call(
        normal(3, 4), SCALE_8, torch.tensor([2]), torch.qint8, result=zeros(3, 4, dtype=torch.int8)
    ),
    "npu::copy_memory_": call(zeros(2, 3), normal(6)),
    "npu::npu_add_quant_gmm_": call(
        *(normal(3, 4, 6, seed=2), *BYTES, normal(3, 6, seed=3), ENDS),
        **{"x1_scale": normal(3, 4, seed=4), "x1_dtype": 292, "x2_dtype": 292},
    ),
    "npu::npu_add_quant_matmul_": call(
        *(normal(5, 6), integers(-9, 9, 5, 8, dtype=torch.int8), integers(-9, 9, 8, 6, dtype=torch.int8), normal(6)),
        x1_scale=normal(5, seed=3),
    ),
    "npu::npu_add_rms_norm_v2": call(normal(3, 8), normal(3, 8, seed=2), NORMED[1]),
    "npu::npu_advance_step_flashattn": call(
        *(zeros(4, dtype=torch.int64), integers(0, 9, 3, 1), zeros(4, dtype=torch.int64)),
        *(torch.tensor([3, 4, 7, 9], dtype=torch.int32), zeros(4, dtype=torch.int64)),
        *(integers(0, 9, 4, 3, dtype=torch.int32), 4, 3, 4),
    ),
    "npu::npu_apply_adam.out": call(0.81, 0.9, 0.1, 0.9, 0.95, 1e-3, normal(3, 4, seed=3), False, True, out=ADAM),
    "npu::npu_apply_adam_w.out": call(
        *(0.81, 0.9, 0.1, 0.01, 0.9, 0.95, 1e-8, normal(3, 4, seed=3), None, False, False), out=ADAM
    ),
    "npu::npu_attn_softmax_": call(normal(3, 8)),
    "npu::npu_attn_softmax_backward_": call(normal(2, 3, 3).softmax(-1), normal(2, 3, 4), normal(2, 3, 4, seed=1)),
    "npu::npu_batch_gather_matmul_": call(
        *(normal(4, 12), normal(4, 8, seed=1), normal(3, 2, 6, 3, seed=2), torch.tensor([2, 0, -1, 2])),
        **{"weight_a": normal(3, 2, 3, 8, seed=3), "layer_idx": 1, "scale": 0.5, "y_offset": 2, "y_slice_size": 6},
    ),
    "npu::npu_bert_apply_adam.out": call(0.1, 0.9, 0.95, 1e-3, normal(3, 4, seed=3), 1.0, 0.5, 0.01, out=ADAM),
    "npu::npu_broadcast.out": call(normal(3, 1), [2, 3, 4], out=zeros(2, 3, 4)),
    "npu::npu_conv2d.out": call(
        normal(2, 4, 6, 6), normal(6, 2, 3, 3, seed=1), None, [2, 2], [1, 1], [1, 1], 2, out=zeros(2, 6, 3, 3)
    ),
    "npu::npu_conv3d.out": call(
        *(normal(2, 4, 6, 6, 6), normal(6, 2, 3, 3, 3, seed=1), None, [2] * 3, [1] * 3, [1] * 3, 2),
        out=zeros(2, 6, 3, 3, 3),
    ),
    "npu::npu_dtype_cast_": call(zeros(3, 4, dtype=torch.bfloat16), normal(3, 4)),
    "npu::npu_format_cast_": call(normal(16, 16), normal(16, 16)),
    "npu::npu_format_cast_.acl_format": call(normal(16, 16), NZ),
    "npu::npu_fused_infer_attention_score.out": call(
        *DENSE, **{"num_heads": 2, "scale": 0.3, "softmax_lse_flag": True}, out=[zeros(2, 5, 16), zeros(2, 2, 5, 1)]
    ),
    "npu::npu_fused_infer_attention_score_v2.out": call(
        *(QUERY, *(x.flatten(2) for x in DECODE[1:])),
        **{"num_query_heads": 4, "num_key_value_heads": 2, "softmax_scale": 0.3, "input_layout": "TND"},
        **{"block_table": TABLE, "block_size": 3, "actual_seq_qlen": [1, 2, 3], "actual_seq_kvlen": CONTEXT},
        out=[zeros(3, 4, 8), zeros(0)],
    ),
    "npu::npu_fusion_attention_grad_v3.out": call(
        *(*DENSE, normal(2, 5, 16, seed=4), 2, "BSH"), out=[*map(torch.zeros_like, DENSE), zeros(0), zeros(0)]
    ),
    "npu::npu_fusion_attention_v3.out": call(*DENSE, 2, "BSH", out=results_of_fusion()),
    "npu::npu_fused_causal_conv1d": call(normal(4, 2, 6), normal(3, 6, seed=1), normal(4, 2, 6, seed=2)),
    "npu::npu_fused_causal_conv1d_v2": call(normal(4, 2, 6), normal(3, 6, seed=1), normal(4, 2, 6, seed=2)),
    "npu::npu_gather_pa_kv_cache": call(
        *(*PAGES, torch.tensor([[3, 0], [1, 1], [2, -1]], dtype=torch.int32)),
        *(torch.tensor([3, 0, 6], dtype=torch.int32), zeros(9, 2, 4), zeros(9, 2, 4)),
    ),
    "npu::npu_grouped_matmul_add_": call(normal(3, 4, 6), normal(5, 4).half(), normal(5, 6).half(), ENDS),
    "npu::npu_hans_decode.out": call(*CODE, PDF, out=zeros(24, 64)),
    "npu::npu_hans_encode.out": call(normal(24, 64), True, out=compression.buffers(normal(24, 64))),
    "npu::npu_indexing.out": call(normal(4, 6), [1, 0], [3, 6], [1, 2], out=zeros(2, 3)),
    "npu::npu_kv_rmsnorm_rope_cache_v2": call(*mla.kv_arguments("PA"), cache_mode="PA"),
    "npu::npu_mla_prolog_v3": call(*mla.mla_arguments(6), cache_index=mla.INDEX),
    "npu::npu_nsa_compress_infer.cache": call(
        *(normal(2, 9, 2, 16), normal(4, 2, seed=1), torch.tensor([5, 2], dtype=torch.int32), 4, 2, 9),
        actual_seq_len=[8, 6],
        cache=normal(4, 2, 2, 16, seed=2),
    ),
    "npu::npu_qkv_rms_norm_rope_cache": call(*mla.qkv_arguments(torch.float32, 3, 4, 2, 8), cache_mode="PA_BSND"),
    "npu::npu_quant_scatter_": call(
        *(integers(-9, 9, 3, 2, 5, 4, dtype=torch.int8), torch.tensor([1, 4, -1]), normal(3, 2, 1, 4)),
        torch.tensor([0.02, 0.1, 0.001, 0.03]),
    ),
    "npu::npu_recurrent_gated_delta_rule": call(
        *delta_rule.arguments(), **delta_rule.GIVEN, ssm_state_indices=torch.tensor([6, 1, 2, 4, 0], dtype=torch.int32)
    ),
    "npu::npu_reshape.out": call(normal(4, 6), [3, 8], out=zeros(3, 8)),
    "npu::npu_scatter_list_": call(
        [normal(5, 4, seed=i) for i in range(2)], torch.tensor([1, 3]), normal(2, 1, 4, seed=3)
    ),
    "npu::npu_scatter_nd_update_": call(normal(4, 5), torch.tensor([[3], [0]]), normal(2, 5, seed=1)),
    "npu::npu_scatter_pa_cache.value": call(TOKENS[0], SLOTS, key_cache=PAGES[0]),
    "npu::npu_scatter_pa_kv_cache": call(*TOKENS, *PAGES, SLOTS, cache_mode="Norm"),
    "npu::npu_silu_": call(normal(3, 4)),
    "npu::npu_sim_exponential_": call(normal(3, 4)),
    "npu::npu_slice.out": call(normal(4, 5), [1, 2], [2, 3], out=zeros(2, 3)),
    "npu::npu_sort_v2.out": call(normal(4, 5), out=zeros(4, 5)),
    "npu::npu_stride_copy.out": call(normal(4, 6), [3, 4], [6, 1], 2, out=zeros(3, 4)),
    "npu::npu_transpose.out": call(normal(2, 3, 4), [2, 0, 1], out=zeros(4, 2, 3)),
    "npu::npu_view_copy": call(normal(3, 4), normal(3, 4, seed=1), False),
    "npu::one_": call(normal(3, 4)),
    "npu::scatter_update_": call(normal(3, 2, 5, 4), torch.tensor([4, 0, 2]), normal(3, 2, 1, 4, seed=1), -2),
}

# Operators that write although their schemas do not say so. They are taken apart before they reach a graph.
CALLS |= {
    "atb::_npu_group_topk": call(normal(5, 12).sigmoid(), 2, 4, 2),
    "npu::npu_apply_rotary_pos_emb": call(
        *(normal(2, 3, 4, 8), normal(2, 3, 2, 8, seed=1), normal(2, 3, 1, 8, seed=2), normal(2, 3, 1, 8, seed=3))
    ),
    "npu::npu_kv_rmsnorm_rope_cache": call(*mla.kv_arguments("PA"), cache_mode="PA"),
    "atb::npu_mla_preprocess.out": call(
        *preprocess.arguments(torch.float32, preprocess.weights(torch.float32), *preprocess.caches()),
        q_out0=zeros(preprocess.TOKENS, preprocess.HEADS, preprocess.LATENT),
        q_out1=zeros(preprocess.TOKENS, preprocess.HEADS, preprocess.ROPE),
        **dict(zip(("kv_cache_out0", "kv_cache_out1"), preprocess.caches(), strict=True)),
    ),
}
