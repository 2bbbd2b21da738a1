# SPDX-License-Identifier: Apache-2.0
"""Converters of operators of ``again`` to operators of Ascend IR, in both forms of ``custom_op``. Some of Ascend's
operators the engine computes by the operator that is converted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torchair
from tests.python.device.registered_in_python import in_python
from torchair.ge import Tensor, attr, custom_op

CONVERTED: list[str] = []


def converter(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    CONVERTED.append(name)
    return torchair.register_fx_node_ge_converter(in_python(name))


@converter("npu_gelu")
def gelu(input: Tensor, *, approximate: str = "none", meta_outputs: Any) -> Tensor:
    return custom_op("GeluV2", inputs={"x": input}, outputs=["y"], attrs={"approximate": attr.Str(approximate)})


@converter("npu_rms_norm")
def rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6, *, meta_outputs: Any) -> tuple[Tensor, Tensor]:
    return custom_op("RmsNorm", input, gamma, epsilon)


@converter("npu_slice")
def slice_(input: Tensor, offsets: Sequence[int], size: Sequence[int], *, meta_outputs: Any) -> Tensor:
    return custom_op("Slice", input, offsets, size)


@converter("npu_reshape")
def reshape(input: Tensor, shape: Sequence[int], can_refresh: bool = False, *, meta_outputs: Any) -> Tensor:
    return custom_op("Reshape", input, shape)


@converter("npu_transpose")
def transpose(input: Tensor, perm: Sequence[int], require_contiguous: bool = True, *, meta_outputs: Any) -> Tensor:
    return custom_op("Transpose", input, perm)


@converter("npu_broadcast")
def broadcast(input: Tensor, size: Sequence[int], *, meta_outputs: Any) -> Tensor:
    return custom_op("BroadcastTo", inputs={"x": input, "shape": size}, outputs=["y"], attrs={})


@converter("npu_silu")
def silu(input: Tensor, *, meta_outputs: Any) -> Tensor:
    return custom_op("Swish", input, 1.0)


@converter("npu_linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, meta_outputs: Any) -> Tensor:
    return custom_op("MatMulV2", input, weight, bias, None, False, True)


@converter("npu_bmmV2")
def batched_product(self: Tensor, mat2: Tensor, output_sizes: Sequence[int], *, meta_outputs: Any) -> Tensor:
    return custom_op("BatchMatMulV2", self, mat2)


@converter("npu_layer_norm_eval")
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    meta_outputs: Any,
) -> Tensor:
    if weight is None:
        raise NotImplementedError("without a weight")
    bias = custom_op("ZerosLike", weight) if bias is None else bias
    return custom_op("LayerNormV4", input, normalized_shape, weight, bias, eps)[0]


@converter("npu_swiglu")
def swiglu(input: Tensor, dim: int = -1, *, meta_outputs: Any) -> Tensor:
    first, second = custom_op("SplitD", inputs={"x": input}, outputs=[("y", 2)], attrs=halves(dim))
    return custom_op("Mul", custom_op("Swish", first, 1.0), second)


def halves(dim: int) -> dict[str, attr.Attr]:
    return {"split_dim": attr.Int(dim), "num_split": attr.Int(2)}


@converter("npu_add_rms_norm")
def add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6, *, meta_outputs: Any) -> Any:
    return custom_op(
        "AddRmsNorm",
        inputs={"x1": x1, "x2": x2, "gamma": gamma},
        outputs=["y", "rstd", "x"],
        attrs={"epsilon": attr.Float(epsilon)},
    )


@converter("npu_scatter_nd_update_")
def scatter_nd_update_(input: Tensor, indices: Tensor, updates: Tensor, *, meta_outputs: Any) -> None:
    custom_op("ScatterNdUpdate", inputs={"var": input, "indices": indices, "updates": updates}, outputs=["var"])
