# SPDX-License-Identifier: Apache-2.0
"""Converters of Ascend's operators that write arguments, as rows of the form that ``table.py`` explains:

    npu.scatter_update_.default: Scatter var=input reduce='update' *

An output with the name of an input is that input with a new value. So a row also says which arguments are written, and
which results of the operator are these arguments. Some operators write arguments of which their schemas do not say so,
or return what they write. Graphs hold a second form of them (``fx/graph_forms.py``), which has the same converter."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from npugraph.ge import ir
from npugraph.ge.builders import ge_op
from npugraph.ge.converters import registry
from npugraph.ge.converters.table import Row, all_arguments, fitting, row_of_ascend, value_of

_TABLE = """\
npu.npu_add_quant_matmul_.default: QuantBatchMatmulInplaceAdd y=input *
npu.npu_apply_rotary_pos_emb.default: ApplyRotaryPosEmb *
npu.npu_dequant_rope_quant_kvcache.default: DequantRopeQuantKvcache layout=input_layout *
npu.npu_fused_causal_conv1d.default: FusedCausalConv1d activation_mode=activation *
npu.npu_fused_causal_conv1d_v2.default: InplaceFusedCausalConv1d activation_mode=activation *
npu.npu_kv_rmsnorm_rope_cache.default: KvRmsNormRopeCache *
npu.npu_kv_rmsnorm_rope_cache_v2.default: KvRmsNormRopeCache *
npu.npu_mla_prolog.default: MlaProlog *
npu.npu_mla_prolog_v2.default: MlaPrologV2 *
npu.npu_mla_prolog_v3.default: MlaPrologV3 *
npu.npu_qkv_rms_norm_rope_cache.default: QkvRmsNormRopeCache *
npu.npu_quant_scatter_.default: QuantUpdateScatter var=input *
npu.npu_recurrent_gated_delta_rule.default: RecurrentGatedDeltaRule scale_value=scale *
npu.npu_rope_quant_kvcache.default: DequantRopeQuantKvcache layout=input_layout *
npu.npu_scatter_nd_update_.default: ScatterNdUpdate var=input *
npu.npu_scatter_pa_kv_cache.default: ScatterPaKvCache compress_seq_offset=compress_seq_offsets *
npu.scatter_update_.default: Scatter var=input reduce='update' *
"""
ROWS = tuple(_TABLE.splitlines())
# The end of the name of a second form.
_SUFFIX = "_in_graphs"


_OF_CONVOLUTION: Mapping[str, Mapping[Any, Any]] = {
    "activation": {None: 0, "None": 0, "silu": 1, "swish": 2},
    "conv_mode": {None: 0, "default": 0},
}
# Arguments of which Ascend IR has other values, by the target.
VALUES_OF_IR: Mapping[str, Mapping[str, Mapping[Any, Any]]] = {
    "npu.npu_apply_rotary_pos_emb.default": {"layout": {"BSND": 1, "SBND": 2, "BNSD": 3, "TND": 4}},
    "npu.npu_dequant_rope_quant_kvcache.default": {"quant_mode": {0: "static", 1: "dynamic"}},
    "npu.npu_fused_causal_conv1d.default": _OF_CONVOLUTION,
    "npu.npu_fused_causal_conv1d_v2.default": _OF_CONVOLUTION,
    "npu.npu_rope_quant_kvcache.default": {"quant_mode": {0: "static", 1: "dynamic"}},
}


def form_name(target: str) -> str:
    """The name of the second form of a target: npu.npu_mla_prolog_in_graphs.default."""
    operator, _, overload = target.rpartition(".")
    return f"{operator}{_SUFFIX}.{overload}"


def row_of(target: str) -> Row:
    return row_of_ascend(next(text for text in ROWS if text.startswith(f"{target}:")))


def results_of(row: Row) -> list[str]:
    """For each output of the operator of a row the argument that it is with a new value, "" for a new tensor."""
    operator = ir.find(row.op_type)
    assert operator is not None
    inputs = {x.name for x in operator.inputs}
    arguments = {name: source.name for name, source in row.sources if name in inputs}
    return [arguments.get(output.name, "") for output in operator.outputs]


def _convert(text: str, *args: Any, meta_outputs: Any, **kwargs: Any) -> Any:
    """Adds the operator, and returns its new tensors."""
    row = row_of_ascend(text)
    operator = ir.find(row.op_type)
    assert operator is not None
    given = all_arguments(row.target, args, kwargs)
    for name, values in VALUES_OF_IR.get(row.target, {}).items():
        given[name] = values[given[name]]
    made = ge_op(row.op_type, **fitting(operator, {name: value_of(source, given) for name, source in row.sources}))
    outputs = made if isinstance(made, tuple) else (made,)
    new = [output for output, argument in zip(outputs, results_of(row), strict=True) if not argument]
    return new if len(new) > 1 else new[0] if new else None


def register_writers() -> None:
    """Registers the converters of the rows, and of the second forms of their targets."""
    for text in ROWS:
        target = text.partition(":")[0]
        for name in (target, form_name(target)):
            registry.add(name, functools.partial(_convert, text))
