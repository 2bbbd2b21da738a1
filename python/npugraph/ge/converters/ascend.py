# SPDX-License-Identifier: Apache-2.0
"""Converters of Ascend's operators that a row of ``ascend_rows.py`` cannot say. They are known by their names, because
torch_npu defines the operators.

A function gets the arguments of a call by name, with the defaults of the schema, and the ``TensorSpec`` of each result.
Inputs and attributes of Ascend IR that have the name of an argument are that argument."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from npugraph.ge import apis as ge
from npugraph.ge import ir
from npugraph.ge.builders import ge_op
from npugraph.ge.converters import registry
from npugraph.ge.converters.table import all_arguments, fitting
from npugraph.ge.converters.values import operand
from npugraph.ge.data_types import DataType

Given = Mapping[str, Any]
Body = Callable[[Given, Any], Any]
_ROTARY_MODES = {"half": 0, "interleave": 1, "quarter": 2, "interleave-half": 3}


def _converter(*targets: str) -> Callable[[Body], Body]:
    """Makes the decorated function the converter of these targets."""

    def register(body: Body) -> Body:
        for target in targets:
            registry.add(target, functools.partial(_convert, target, body))
        return body

    return register


def _convert(target: str, body: Body, *args: Any, meta_outputs: Any, **kwargs: Any) -> Any:
    return body(all_arguments(target, args, kwargs), meta_outputs)


def _add(op_type: str, given: Given, **others: Any) -> Any:
    """Adds an operator whose inputs and attributes are the arguments of their names, and ``others``. One that is None
    is absent, and has its default as an attribute."""
    operator = ir.find(op_type)
    assert operator is not None
    names = {x.name for x in (*operator.inputs, *operator.attributes)}
    values = {name: value for name, value in given.items() if name in names} | others
    return ge_op(op_type, **fitting(operator, values))


@_converter("npu.npu_rotary_mul.default")
def rotary_mul(given: Given, meta_outputs: Any) -> Any:
    if given["rotary_mode"] == "half" and given["rotate"] is None:
        return ge.RotaryMul(given["input"], given["r1"], given["r2"])
    return _add(
        "RotaryPositionEmbedding",
        given,
        x=given["input"],
        cos=given["r1"],
        sin=given["r2"],
        mode=_ROTARY_MODES[given["rotary_mode"]],
    )


@_converter("npu.npu_rotary_mul_backward.default")
def rotary_mul_backward(given: Given, meta_outputs: Any) -> Any:
    if given["rotary_mode"] == "half":
        return _add("RotaryMulGrad", given, x=given["input"], dy=given["grad"])
    mode = _ROTARY_MODES[given["rotary_mode"]]
    sources = {"dy": given["grad"], "cos": given["r1"], "sin": given["r2"], "x": given["input"]}
    return _add("RotaryPositionEmbeddingGrad", given, **sources, mode=mode)


@_converter("npu.npu_fusion_attention.default")
def fusion_attention(given: Given, meta_outputs: Any) -> Any:
    most, total, softmax, result = _add(
        "FlashAttentionScore",
        given,
        real_shift=given["pse"],
        drop_mask=given["dropout_mask"],
        scale_value=given["scale"],
    )
    return [result, most, total, softmax, *(ge.Const(0, dtype=DataType.DT_INT64) for _ in meta_outputs[4:])]


@_converter("npu.npu_fusion_attention_grad.default")
def fusion_attention_grad(given: Given, meta_outputs: Any) -> Any:
    gradients = _add("FlashAttentionScoreGrad", given, pse_shift=given["pse"])
    return [*gradients, *(None for _ in meta_outputs[4:])]


@_converter("npu.npu_fused_infer_attention_score.default", "air.npu_fused_infer_attention_score.default")
def fused_infer_attention_score(given: Given, meta_outputs: Any) -> Any:
    return _add("FusedInferAttentionScore", given, key=[given["key"]], value=[given["value"]])


@_converter("npu.npu_fused_infer_attention_score_v2.default", "air.npu_fused_infer_attention_score_v2.default")
def fused_infer_attention_score_v2(given: Given, meta_outputs: Any) -> Any:
    return _add(
        "FusedInferAttentionScore",
        given,
        key=[given["key"]],
        value=[given["value"]],
        actual_seq_lengths=given["actual_seq_qlen"],
        actual_seq_lengths_kv=given["actual_seq_kvlen"],
        quant_scale1=given["quant_scale_p"],
        quant_scale2=given["quant_scale_out"],
        quant_offset2=given["quant_offset_out"],
        key_antiquant_scale=given["dequant_scale_key"],
        key_antiquant_offset=given["dequant_offset_key"],
        value_antiquant_scale=given["dequant_scale_value"],
        value_antiquant_offset=given["dequant_offset_value"],
        key_rope_antiquant_scale=given["dequant_scale_key_rope"],
        num_heads=given["num_query_heads"],
        scale=given["softmax_scale"],
        softmax_lse_flag=given["return_softmax_lse"],
        key_antiquant_mode=given["key_quant_mode"],
        value_antiquant_mode=given["value_quant_mode"],
        out_dtype=int(meta_outputs[0].dtype),
    )


@_converter("npu.npu_incre_flash_attention.default")
def incre_flash_attention(given: Given, meta_outputs: Any) -> Any:
    return _add("IncreFlashAttention", given, key=[given["key"]], value=[given["value"]])


@_converter("npu.npu_attention_update.default")
def attention_update(given: Given, meta_outputs: Any) -> Any:
    return _add("AttentionUpdate", given, go=given["local_out"], sp=len(given["lse"]))


@_converter("npu.npu_quant_matmul.default")
def quant_matmul(given: Given, meta_outputs: Any) -> Any:
    dtype = int(meta_outputs.dtype)
    if given["x1"].dtype in (DataType.DT_INT8, DataType.DT_INT4, DataType.DT_INT32) and given["y_scale"] is None:
        return _add("QuantBatchMatmulV3", given, dtype=dtype)
    scales = {"x1_scale": given["pertoken_scale"], "x2_scale": given["scale"], "x2_offset": given["offset"]}
    return _add("QuantBatchMatmulV4", given, **scales, dtype=dtype)


@_converter("npu.npu_quantize.default")
def quantize(given: Given, meta_outputs: Any) -> Any:
    x, scales, offset = given["input"], given["scales"], given["zero_points"]
    if given["div_mode"]:
        name = meta_outputs.dtype.name.removeprefix("DT_").lower()
        return ge.Quantize(x, scales, offset, dtype=f"torch.q{name}", axis=given["axis"])
    return ge.AscendQuantV2(x, scales, offset, dst_type=int(meta_outputs.dtype), axis=given["axis"])


@_converter("npu.npu_dequant_swiglu_quant.default")
def dequant_swiglu_quant(given: Given, meta_outputs: Any) -> Any:
    round_modes = ("rint", "round", "floor", "ceil", "trunc")
    return _add(
        "DequantSwigluQuant",
        given,
        quant_mode=("static", "dynamic")[given["quant_mode"]],
        dst_type=int(meta_outputs[0].dtype),
        round_mode=round_modes[given["round_mode"] or 0],
        activate_dim=-1 if given["activate_dim"] is None else given["activate_dim"],
    )


@_converter("npu.npu_ffn.default")
def ffn(given: Given, meta_outputs: Any) -> Any:
    index = given["expert_tokens_index"]
    tokens = given["expert_tokens"] if index is None else index
    return _add("FFN", given, expert_tokens=tokens, output_dtype=None, tokens_index_flag=index is not None)


@_converter("npu.npu_moe_finalize_routing.default")
def moe_finalize_routing(given: Given, meta_outputs: Any) -> Any:
    return ge.MoeFinalizeRoutingV2(
        given["expanded_permuted_rows"],
        given["expanded_src_to_dst_row"],
        given["skip1"],
        given["skip2"],
        given["bias"],
        given["scales"],
        given["export_for_source_row"],
        drop_pad_mode=given["drop_pad_mode"] or 0,
        K=given["k"] or 1,
    )


@_converter("npu.npu_grouped_matmul.default", "npu.npu_grouped_matmul.List")
def grouped_matmul(given: Given, meta_outputs: Any) -> Any:
    scales: Any = given["per_token_scale"]
    lists = {name: given[name] or [] for name in ("bias", "scale", "offset", "antiquant_scale", "antiquant_offset")}
    result = _add(
        "GroupedMatmul",
        given,
        **lists,
        per_token_scale=scales[0] if scales else None,
        dtype=int(meta_outputs[0].dtype),
        group_type=-1 if given["group_type"] is None else given["group_type"],
        size_of_y=len(meta_outputs),
    )
    return list(result)


@_converter("npu.npu_grouped_matmul_swiglu_quant_v2.default")
def grouped_matmul_swiglu_quant(given: Given, meta_outputs: Any) -> Any:
    smooth = given["smooth_scale"]
    return _add(
        "GroupedMatmulSwigluQuantV2",
        given,
        smooth_scale=[] if smooth is None else [smooth],
        weight_assist_matrix=given["weight_assist_matrix"] or [],
        dequant_dtype=None,
        quant_dtype=int(meta_outputs[0].dtype),
    )


@_converter("npu.npu_prefetch.default")
def prefetch(given: Given, meta_outputs: Any) -> Any:
    waits = [] if given["dependency"] is None else [given["dependency"]]
    ge.Cmo(given["input"], max_size=given["max_size"], offset=given["offset"], dependencies=waits)


@_converter("npu.npu_quant_conv2d.default")
def quant_conv2d(given: Given, meta_outputs: Any) -> Any:
    (vertical, horizontal), strides, dilations = given["pads"], given["strides"], given["dilations"]
    return _add(
        "QuantConv2D",
        given,
        x=given["input"],
        filter=given["weight"],
        dtype=int(meta_outputs.dtype),
        strides=[1, 1, *strides],
        pads=[vertical, vertical, horizontal, horizontal],
        dilations=[1, 1, *dilations],
        data_format="NCHW",
    )


@_converter("npu.npu_gather_backward.default")
def gather_backward(given: Given, meta_outputs: Any) -> Any:
    zeros = ge.Fill(given["self_size"], operand(0, meta_outputs.dtype))
    return ge.ScatterElements(zeros, given["index"], given["grad"], axis=given["dim"], reduction="add")


@_converter("npu.npu_all_gather_quant_mm.default")
def all_gather_quant_mm(given: Given, meta_outputs: Any) -> Any:
    return _add(
        "AllGatherMatmulV2",
        given,
        x1=given["input"],
        group=given["hcom"],
        rank_size=given["world_size"],
        is_gather_out=given["gather_output"],
        is_amax_out=given["amax_output"],
        y_dtype=int(meta_outputs[0].dtype),
        comm_mode=given["comm_mode"] or "ai_cpu",
    )
