# SPDX-License-Identifier: Apache-2.0
"""Operators of graphs in GE mode, and the older names of two scopes."""

from npugraph.ge.backend.operators import (
    npu_create_tagged_event,
    npu_fused_infer_attention_score,
    npu_fused_infer_attention_score_v2,
    npu_print,
    npu_record_tagged_stream,
    npu_tagged_event_record,
    npu_tagged_event_wait,
    record,
    wait,
)
from npugraph.ge.backend.scopes import NpuStreamSwitch, npu_wait_tensor

__all__ = [
    "NpuStreamSwitch",
    "npu_create_tagged_event",
    "npu_fused_infer_attention_score",
    "npu_fused_infer_attention_score_v2",
    "npu_print",
    "npu_record_tagged_stream",
    "npu_tagged_event_record",
    "npu_tagged_event_wait",
    "npu_wait_tensor",
    "record",
    "wait",
]
