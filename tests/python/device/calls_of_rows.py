# SPDX-License-Identifier: Apache-2.0
"""Drawn calls of operators on the rows of one tensor: norms, gates, rotations and quantisation."""

from __future__ import annotations

import torch

from tests.python.device.drawn_calls import Call, Draw, call, whole, written
from tests.python.device.quantised import INT4


@call("npu_rms_norm", "npu_gemma_rms_norm")
def rms_norm(d: Draw) -> Call:
    dtype, n = d.dtype(), d.size()
    return (d.normal(*d.sizes(), n, dtype=dtype), d.normal(n, dtype=d.choice(dtype, torch.float32))), {}


@call("npu_add_rms_norm", "npu_add_rms_norm_cast", "npu_add_rms_norm_v2_functional")
def add_rms_norm(d: Draw) -> Call:
    dtype, batch, n = d.dtype(), d.sizes(), d.size()
    x2 = d.normal(*batch, n, dtype=dtype).contiguous()  # in other layouts, ATen's add and its Meta differ in strides
    return (d.normal(*batch, n, dtype=dtype), x2, d.normal(n, dtype=dtype)), {}


@call("npu_add_rms_norm_v2")
def add_rms_norm_v2(d: Draw) -> Call:
    dtype, batch, n = d.dtype(), d.sizes(), d.size()
    return (written(*batch, n, dtype=dtype), written(*batch, n, dtype=dtype), d.normal(n, dtype=dtype)), {}


@call("npu_add_rms_norm_quant")
def add_rms_norm_quant(d: Draw) -> Call:
    (x1, x2, gamma), _ = add_rms_norm(d)
    n = gamma.shape[0]
    more = d.given(beta=lambda: d.normal(n, dtype=gamma.dtype), scales2=lambda: d.positive(n))
    points = d.maybe(lambda: d.integers(-9, 9, n, dtype=torch.int32))
    return (x1, x2, gamma, d.positive(n), points), {**more, "div_mode": d.flag()}


@call("npu_add_rms_norm_dynamic_quant")
def add_rms_norm_dynamic_quant(d: Draw) -> Call:
    args, _ = add_rms_norm(d)
    n, dtype = args[2].shape[0], args[2].dtype
    smooth = {name: lambda: d.positive(n, dtype=dtype) for name in ("smooth_scale1", "smooth_scale2")}
    mask = d.given(output_mask=lambda: [d.flag(), d.flag()])
    return args, d.given(**smooth, beta=lambda: d.normal(n, dtype=dtype)) | mask


@call("npu_rms_norm_quant")
def rms_norm_quant(d: Draw) -> Call:
    dtype, n = d.dtype(), d.size()
    rows = (d.normal(*d.sizes(), n, dtype=dtype), d.normal(n, dtype=dtype), d.normal(n, dtype=dtype))
    return (*rows, d.positive(1, dtype=dtype), d.integers(-9, 9, 1, dtype=torch.int8)), {}


@call("npu_swiglu")
def swiglu(d: Draw) -> Call:
    size = [*d.sizes(), d.size()]
    dim = d.size(-len(size), len(size) - 1)
    size[dim] *= 2
    return (d.normal(*size, dtype=d.dtype()),), {"dim": dim}


@call("npu_silu", "npu_fast_gelu")
def activation(d: Draw) -> Call:
    return (d.normal(*d.sizes(), dtype=d.dtype()),), {}


@call("npu_clipped_swiglu")
def clipped_swiglu(d: Draw) -> Call:
    x = d.normal(*d.sizes(), 2 * d.size(), dtype=d.dtype())
    return (x,), {"interleaved": d.flag()} | d.given(group_index=lambda: whole([1, 2]))


@call("npu_dequant_swiglu_quant")
def dequant_swiglu_quant(d: Draw) -> Call:
    rows, n, mode = d.rows(), 2 * d.size(), d.choice(0, 1)
    how = {"activate_left": d.flag(), "quant_mode": mode, "swiglu_mode": d.choice(0, 1, 2)}
    how |= {"quant_scale": d.positive(1, n // 2)} if mode == 0 else {}
    if d.flag():
        return (d.normal(rows, n, dtype=d.dtype()),), how
    scales = {"weight_scale": d.positive(1, n), "activation_scale": d.positive(rows)}
    return (d.integers(-999, 999, rows, n, dtype=torch.int32),), how | scales


@call("npu_quantize")
def quantize(d: Draw) -> Call:
    batch, n, dtype = d.sizes(), d.size(), d.dtype()
    points = d.maybe(lambda: d.integers(-9, 9, n, dtype=torch.int32))
    types = torch.int8, torch.quint8, torch.int32
    return (d.normal(*batch, n, dtype=dtype), d.positive(n), points, d.choice(*types), -1, d.flag()), {}


@call("npu_dynamic_quant")
def dynamic_quant(d: Draw) -> Call:
    dtype, n, mode = d.dtype(), 8 * d.size(), d.choice("pertoken", "perchannel", "pertensor")
    batch = d.sizes() if mode == "pertoken" else (d.size(), d.size())
    x, groups = d.normal(*batch, n, dtype=dtype), mode == "pertoken" and d.flag()
    how = d.given(dst_type=lambda: d.choice(torch.int8, INT4, torch.float8_e4m3fn))
    if groups:
        rows = x.numel() // n
        return (x,), how | {"smooth_scales": d.positive(2, n, dtype=dtype), "group_index": whole([1, rows]).int()}
    return (x,), how | {"quant_mode": mode} | d.given(smooth_scales=lambda: d.positive(n, dtype=dtype))


@call("npu_anti_quant")
def anti_quant(d: Draw) -> Call:
    rows, n = d.rows(), d.size()
    words = d.flag()
    x = d.integers(-999, 999, rows, n, dtype=torch.int32) if words else d.int8(rows, n)
    scale = d.choice(1, n * 8 if words else n)
    return (x, d.positive(scale)), d.given(offset=lambda: d.normal(scale)) | {"dst_dtype": d.dtype()}


@call("npu_trans_quant_param")
def trans_quant_param(d: Draw) -> Call:
    n = d.size()
    return (d.positive(n), d.maybe(lambda: d.normal(n)), d.choice(0, 1)), {}


@call("npu_convert_weight_to_int4pack")
def int4pack(d: Draw) -> Call:
    return (d.integers(-8, 8, *d.sizes(), 8 * d.size(), dtype=torch.int32),), {}


@call("npu_dtype_cast", "_npu_dtype_cast")
def cast(d: Draw) -> Call:
    return (d.normal(*d.sizes(), dtype=d.dtype()), d.choice(torch.float32, torch.float16, torch.int32)), {}


@call("npu_rotary_mul")
def rotary_mul(d: Draw) -> Call:
    batch, rows, heads, n, dtype = d.size(), d.rows(), d.size(), 2 * d.size(), d.dtype()
    tables = [d.normal(d.choice(1, batch), rows, 1, n, dtype=dtype) for _ in range(2)]
    return (d.normal(batch, rows, heads, n, dtype=dtype), *tables, d.choice("half", "interleave")), {}


@call("npu_apply_rotary_pos_emb")
def apply_rotary(d: Draw) -> Call:
    batch, rows, heads, n, dtype = d.size(), d.rows(), d.size(), 4 * d.size(), d.dtype()
    packed = d.flag()
    batch = () if packed else (batch,)
    both = [written(*batch, rows, h, n, dtype=dtype) for h in (heads, 1)]
    tables = [d.normal(*batch, rows, 1, n, dtype=dtype) for _ in range(2)]
    return (*both, *tables, "TND" if packed else "BSND", d.choice("half", "interleave", "quarter")), {}


@call("npu_mrope")
def mrope(d: Draw) -> Call:
    rows, n, dtype = d.rows(), 4 * d.size(1, 3), d.dtype()
    q, k = (d.normal(rows, n * d.size(1, 3), dtype=dtype) for _ in range(2))
    how, cache = {"rotary_mode": d.choice("half", "interleave")}, d.normal(9, n, dtype=dtype)
    if d.flag():
        section = [n // 2 - 2, 1, 1]
        return (d.integers(0, 9, 3, rows), q, k, cache, n), how | {"mrope_section": section}
    return (d.integers(0, 9, rows), q, k, cache, n), how


@call("npu_interleave_rope")
def interleave_rope(d: Draw) -> Call:
    batch, heads, rows, n, dtype = d.size(), d.size(), d.size(), 2 * d.size(), d.dtype()
    tables = [d.normal(batch, 1, d.choice(1, rows), n, dtype=dtype) for _ in range(2)]
    return (d.normal(batch, heads, rows, n, dtype=dtype), *tables), {}


@call("npu_top_k_top_p")
def top_k_top_p(d: Draw) -> Call:
    rows, n, dtype = d.rows(), d.size(), d.dtype()
    p, k = (
        d.maybe(lambda: d.positive(rows, dtype=dtype)),
        d.maybe(lambda: d.integers(1, n + 1, rows, dtype=torch.int32)),
    )
    return (d.normal(rows, n, dtype=dtype), p, k), {}
