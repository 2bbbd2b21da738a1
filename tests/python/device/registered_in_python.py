# SPDX-License-Identifier: Apache-2.0
"""Operators of npu, registered a second time in the namespace ``npu_in_python``: all in Python, as users do it with
operators that run in eager mode already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch_npu  # noqa: F401

from tests.python.device import writing_calls
from tests.python.device.npu_operators import integers, normal

NAMESPACE = "npu_in_python"
library = torch.library.Library(NAMESPACE, "DEF")
Call = tuple[tuple[Any, ...], dict[str, Any]]


def call(*args: Any, **kwargs: Any) -> Call:
    return args, kwargs


SQUARE = (normal(2, 4, 6, 6), normal(6, 2, 3, 3, seed=1), normal(6, seed=2), [2, 2], [1, 1], [1, 1], 2)
TOKENS = normal(4, 16), integers(0, 4, 2, 4, dtype=torch.int32), integers(0, 3, 2, 4, dtype=torch.int32, seed=1).t()
SEQUENCES = tuple(normal(2, 5, 16, seed=seed) for seed in range(3))
BOXES = torch.tensor([[0.0, 0.0, 4.0, 4.0], [1.0, 1.0, 5.0, 6.0]])

FUNCTIONAL: dict[str, Call] = {
    "npu_gelu": call(normal(3, 8), approximate="tanh"),
    "npu_rms_norm": call(normal(3, 8), normal(8, seed=1), 1e-5),
    "npu_slice": call(normal(4, 6), [1, 2], [2, 3]),
    "npu_reshape": call(normal(4, 6), [3, 8]),
    "npu_transpose": call(normal(2, 3, 4), [2, 0, 1]),
    "npu_pad": call(normal(3, 4), [1, 0, 2, 1]),
    "npu_broadcast": call(normal(3, 1), [2, 3, 4]),
    "npu_silu": call(normal(3, 8)),
    "npu_linear": call(normal(3, 8), normal(5, 8, seed=1), normal(5, seed=2)),
    "npu_bmmV2": call(normal(2, 3, 4), normal(2, 4, 5, seed=1), []),
    "npu_max.dim": call(normal(3, 8), 1, keepdim=True),
    "npu_min.dim": call(normal(3, 8), 0),
    "npu_swiglu": call(normal(3, 8), dim=-1),
    "npu_mish": call(normal(3, 8)),
    "fast_gelu": call(normal(3, 8)),
    "npu_add_rms_norm": call(normal(3, 8), normal(3, 8, seed=1), normal(8, seed=2)),
    "npu_dynamic_quant": call(normal(3, 8).half(), smooth_scales=normal(8, seed=1).half()),
    "npu_conv2d": call(*SQUARE),
    "npu_one_hot": call(integers(0, 3, 5), -1, 4, 2, -1),
    "npu_rotary_mul": call(normal(2, 3, 4, 8), normal(1, 3, 1, 8, seed=1), normal(1, 3, 1, 8, seed=2)),
    "npu_confusion_transpose": call(normal(2, 3, 4), [1, 0, 2], [2, 12], True),
    "npu_layer_norm_eval": call(normal(3, 8), [8], normal(8, seed=1), None),
    "npu_iou": call(BOXES, BOXES + 1),
    "npu_deep_norm": call(normal(3, 8), normal(3, 8, seed=1), normal(8, seed=2), normal(8, seed=3), 0.5),
    "npu_geglu": call(normal(3, 8)),
    "npu_group_norm_silu": call(normal(2, 4, 6), normal(4, seed=1), normal(4, seed=2), 2),
    "npu_grouped_matmul": call([normal(3, 4)], [normal(4, 5, seed=1)], group_list=None, split_item=0, group_type=-1),
    "npu_moe_gating_top_k_softmax": call(normal(5, 8), None, 2),
    "npu_prompt_flash_attention": call(*SEQUENCES, num_heads=2, scale_value=0.3),
    "npu_scatter_nd_update": call(normal(4, 5), torch.tensor([[3], [0]]), normal(2, 5, seed=1)),
    "npu_scatter_list": writing_calls.CALLS["npu::npu_scatter_list_"],
}
WRITING = (
    *("npu_silu_", "one_", "npu_attn_softmax_", "npu_scatter_nd_update_", "scatter_update_", "npu_quant_scatter_"),
    *("npu_scatter_list_", "npu_add_rms_norm_v2", "npu_advance_step_flashattn", "npu_scatter_pa_kv_cache"),
    *("copy_memory_", "npu_view_copy", "npu_dtype_cast_", "npu_batch_gather_matmul_", "npu_slice.out"),
)
CALLS = FUNCTIONAL | {name: writing_calls.CALLS[f"npu::{name}"] for name in WRITING}


def original(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.npu, packet), overload or "default")


def is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def in_python(name: str) -> Any:
    """The operator in the other namespace. Operators of graphs return no arguments, so results that are written
    arguments are left out."""
    own = name.replace(".", "_")
    if not hasattr(getattr(torch.ops, NAMESPACE), own):
        _register(own, original(name))
    return getattr(getattr(torch.ops, NAMESPACE), own).default


def _register(own: str, op: Any) -> None:
    arguments = str(op._schema).split("(", 1)[1].rpartition(") -> ")[0]
    new = [place for place, result in enumerate(op._schema.returns) if result.alias_info is None]
    types = ", ".join(_TYPES[str(op._schema.returns[place].type)] for place in new)
    library.define(f"{own}({arguments}) -> ({types})")
    body = _without_arguments(op, new)
    library.impl(own, body, "PrivateUse1")
    library.impl(own, body, "Meta")


_TYPES = {"Tensor": "Tensor", "List[Tensor]": "Tensor[]"}


def _without_arguments(op: Any, new: list[int]) -> Callable[..., Any]:
    def body(*args: Any, **kwargs: Any) -> Any:
        results = op(*args, **kwargs)
        if len(op._schema.returns) == 1:
            return results if new else None
        return tuple(results[place] for place in new) if new else None

    return body
