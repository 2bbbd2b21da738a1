# SPDX-License-Identifier: Apache-2.0
"""The projections before multi-head latent attention (DeepSeek-V2, 2024)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from npugraph_vllm.ascend_operators.definitions import composite

npu = torch.ops.npu

EPSILON = 1e-6  # as in DeepSeek-V2


class Layer(NamedTuple):
    weight: Tensor
    descale: Tensor | None
    scale: Tensor | None
    offset: Tensor | None
    bias: Tensor | None


def _matrix(weight: Tensor, rows: int, columns: int) -> Tensor:
    """The weight as (rows, columns). It may be in pieces of rows, (1, columns / n, rows, n), with padding."""
    plain = weight.transpose(1, 2).flatten(2)[0] if weight.dim() == 4 else weight
    return plain[:rows, :columns]


def _through(x: Tensor, layer: Layer, width: int, quant_mode: str) -> Tensor:
    """x @ weight^T, with x in int8 if the weight is."""
    weight = _matrix(layer.weight, width, x.shape[1])
    if weight.dtype != torch.int8:
        product = x @ weight.t()
        return product if layer.bias is None else product + layer.bias
    if quant_mode == "per_token_quant_symm":
        rows, pertoken_scale = npu.npu_dynamic_quant(x)
    else:
        exact = x.float() / layer.scale.float() + layer.offset.float()
        rows, pertoken_scale = exact.round().clamp(-128, 127).to(torch.int8), None
    return npu.npu_quant_matmul(
        rows,
        weight.t(),
        layer.descale,
        pertoken_scale=pertoken_scale,
        bias=layer.bias,
        output_dtype=x.dtype,
    )


def _rotated(x: Tensor, cos: Tensor | None, sin: Tensor | None) -> Tensor:
    """Rotates [rows, heads, size]; without angles as it is."""
    if cos is None or sin is None:
        return x
    angles = (table.view(len(x), 1, 1, -1) for table in (cos, sin))
    return npu.npu_rotary_mul(x.unsqueeze(1), *angles).squeeze(1)


def _put(cache: Tensor, rows: Tensor, slots: Tensor) -> None:
    npu.npu_scatter_nd_update_(cache.view(-1, cache.shape[-1]), slots.view(-1, 1), rows.to(cache.dtype))


@composite("mla_preprocess")
def mla_preprocess(
    hiddenState: Tensor,
    wdqkv: Tensor,
    descale0: Tensor | None,
    gamma1: Tensor,
    beta1: Tensor | None,
    wuq: Tensor,
    descale1: Tensor | None,
    gamma2: Tensor,
    cos: Tensor | None,
    sin: Tensor | None,
    wuk: Tensor,
    kv_cache: Tensor,
    kv_cache_rope: Tensor,
    slotmapping: Tensor,
    quant_scale0: Tensor | None,
    quant_offset0: Tensor | None,
    bias0: Tensor | None,
    quant_scale1: Tensor | None,
    quant_offset1: Tensor | None,
    bias1: Tensor | None,
    ctkv_scale: Tensor | None,
    q_nope_scale: Tensor | None,
    cache_mode: str | None,
    quant_mode: str | None,
    enable_inner_out: bool | None,
    q_out0: Tensor,
    kv_cache_out0: Tensor,
    q_out1: Tensor,
    kv_cache_out1: Tensor,
    inner_out: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As atb::npu_mla_preprocess.out, but of hidden states that are normalised. Rows of ``wdqkv`` are those of the
    latent, the rotated part of the key, and the query. ``inner_out`` takes the normalised query if that is asked for.
    """
    if (cache_mode or "krope_ctkv") != "krope_ctkv":
        raise NotImplementedError(
            f"mla_preprocess: cache_mode is {cache_mode!r}; npugraph-vllm has the operator for 'krope_ctkv'"
        )
    mode = quant_mode or "per_tensor_quant_asymm"
    latent_size, rope_size, query_size = gamma2.numel(), kv_cache_out1.shape[-1], gamma1.numel()
    layer = Layer(wdqkv, descale0, quant_scale0, quant_offset0, bias0)
    down = _through(hiddenState, layer, latent_size + rope_size + query_size, mode)
    latent, key, query = down.split([latent_size, rope_size, query_size], 1)
    _put(kv_cache_out0, npu.npu_rms_norm(latent.contiguous(), gamma2, EPSILON)[0], slotmapping)
    _put(kv_cache_out1, _rotated(key.unsqueeze(1), cos, sin).squeeze(1), slotmapping)

    query = npu.npu_rms_norm(query.contiguous(), gamma1, EPSILON)[0]
    query = query if beta1 is None else query + beta1
    if enable_inner_out:
        inner_out.copy_(query.view(inner_out.shape))
    heads, size = wuk.shape[0], wuk.shape[1]
    layer = Layer(wuq, descale1, quant_scale1, quant_offset1, bias1)
    up = _through(query, layer, heads * (size + rope_size), mode).unflatten(1, (heads, size + rope_size))
    to_latent = torch.bmm(up[..., :size].transpose(0, 1), wuk).transpose(0, 1)
    q_out0.copy_(to_latent.reshape(q_out0.shape))
    q_out1.copy_(_rotated(up[..., size:], cos, sin).reshape(q_out1.shape))
    return q_out0, kv_cache_out0, q_out1, kv_cache_out1, inner_out
