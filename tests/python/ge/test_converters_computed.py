# SPDX-License-Identifier: Apache-2.0
"""Converters of reductions, products, normalisations, pooling and attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from npugraph.ge.converters import MissingConverters
from npugraph.ge.normalise import UNFED, normalise
from tests.python.ge.converted import built, check_values, converted, traced
from tests.python.ge.converted import random_tensor as t

aten = torch.ops.aten
functional = torch.nn.functional
f32, f64, bf16, f16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
i64, i32, flags = torch.int64, torch.int32, torch.bool


Case = tuple[Callable[..., Any], list[torch.Tensor], str]


def sums_of(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x.cumsum(-1, dtype=dtype)


REDUCTIONS: list[Case] = [
    (lambda x: x.sum(), [t(2, 3)], "ReduceSum(x, [0, 1])"),
    (lambda x: x.sum(), [t()], "ReduceSum(x, [])"),
    (lambda x: x.sum(-1, keepdim=True), [t(2, 3, dtype=i32)], "ReduceSum(Cast(x, INT64), [1], keep_dims=True)"),
    (lambda x: x.sum(0, dtype=f32), [t(2, 3, dtype=bf16)], "ReduceSum(Cast(x, FLOAT), [0])"),
    (lambda x: x.mean([0, -1]), [t(2, 3)], "ReduceMean(x, [0, 1])"),
    (lambda x: x.amax(-1), [t(2, 3)], "ReduceMax(x, [1])"),
    (lambda x: x.amin(), [t(2, 3)], "ReduceMin(x, [0, 1])"),
    (lambda x: x.any(-1), [t(2, 3)], "ReduceAny(Cast(x, BOOL), [-1])"),
    (lambda x: x.all(), [t(2, dtype=flags)], "ReduceAll(x, [0])"),
    (lambda x: x.argmax(), [t(2, 3)], "ArgMaxV2(Reshape(x, [-1]), 0)"),
    (lambda x: x.argmax(-1, True), [t(2, 3)], "Unsqueeze(ArgMaxV2(x, -1), axes=[1])"),
    (lambda x: x.max(1), [t(2, 3)], "ReduceMax(x, [1]); ArgMaxV2(x, 1)"),
    (lambda x: x.argmin(0), [t(3, 2)], "ArgMin(x, 0)"),
    (lambda x: x.argmin(keepdim=True), [t(2, 3)], "Reshape(ArgMin(Reshape(x, [-1]), 0), [1, 1])"),
    (lambda x: x.min(0), [t(2, 3)], "ReduceMin(x, [0]); ArgMin(x, 0)"),
    (lambda x: torch.linalg.vector_norm(x), [t(2, 3)], "LpNormV2(x, axes=[0, 1], epsilon=0)"),
    (
        lambda x: torch.linalg.vector_norm(x, 1, -1, True),
        [t(2, 3)],
        "LpNormV2(x, p=1, axes=[1], keepdim=True, epsilon=0)",
    ),
    (lambda x: torch.linalg.vector_norm(x, math.inf, 0), [t(2, 3)], "LpNormV2(x, p=inf, axes=[0], epsilon=0)"),
    (lambda x: x.cumsum(1), [t(2, 3, dtype=i32)], "Cumsum(Cast(x, INT64), 1)"),
    *(
        (sums_of(dtype), [t(3, 40, dtype=dtype)], "Cumsum(x, -1)")
        for dtype in (f64, bf16, f16, i64, i32, torch.int16, torch.int8, torch.uint8)
    ),
    (lambda x: x.cumsum(0, dtype=i32), [t(9)], "Cumsum(Cast(x, INT32), 0)"),
    (lambda x: x.softmax(-1), [t(2, 3)], "SoftmaxV2(x)"),
    (lambda x: functional.log_softmax(x, 0, dtype=f32), [t(2, dtype=bf16)], "LogSoftmaxV2(Cast(x, FLOAT), axes=[0])"),
    (
        lambda x: aten._safe_softmax(x, 0),
        [t(2, 3)],
        "SelectV2(ReduceAll(Equal(x, -inf), [0], keep_dims=True), 0.0, SoftmaxV2(x, axes=[0]))",
    ),
]

PRODUCTS: list[Case] = [
    (lambda x, y: x @ y, [t(2, 3), t(3, 4)], "MatMul(x, y)"),
    (lambda x, y: torch.bmm(x, y), [t(2, 3, 4), t(2, 4, 5)], "BatchMatMul(x, y)"),
    (lambda b, x, y: torch.addmm(b, x, y), [t(4), t(2, 3), t(3, 4)], "MatMulV2(x, y, b)"),
    (
        lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2),
        [t(4), t(2, 3), t(3, 4)],
        "AxpyV2(Mul(b, 0.5), MatMulV2(x, y), 2.0)",
    ),
    (lambda b, x, y: torch.addmm(b, x, y, beta=0), [t(4), t(2, 3), t(3, 4)], "MatMulV2(x, y)"),
    (
        lambda b, x, y: torch.baddbmm(b, x, y),
        [t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)],
        "Add(b, BatchMatMul(x, y))",
    ),
    *(
        (lambda x, y: x @ y, [t(2, 3, dtype=dtype), t(3, 4, dtype=dtype)], "MatMul(x, y)")
        for dtype in (bf16, f16, f64, i64, i32)
    ),
    (lambda x, y: torch.bmm(x, y), [t(2, 3, 4, dtype=f64), t(2, 4, 5, dtype=f64)], "BatchMatMul(x, y)"),
    (lambda x, y: x @ y.t(), [t(2, 3, dtype=f16), t(4, 3, dtype=f16)], "MatMul(x, Transpose(y, [1, 0]))"),
    (
        lambda b, x, y: torch.addmm(b, x, y),
        [t(4, dtype=f16), t(2, 3, dtype=f16), t(3, 4, dtype=f16)],
        "MatMulV2(x, y, b)",
    ),
    (
        lambda x, w, b: functional.conv2d(x, w, b, stride=(2, 1), padding=1),
        [t(1, 3, 8, 8), t(4, 3, 3, 3), t(4)],
        "Conv2D(x, w, b, strides=[1, 1, 2, 1], pads=[1, 1, 1, 1])",
    ),
    (
        lambda x, w: functional.conv1d(x, w, dilation=2, groups=3),
        [t(1, 3, 8), t(6, 1, 3)],
        "Squeeze(Conv2D(Unsqueeze(x, axes=[2]), Unsqueeze(w, axes=[2]), strides=[1, 1, 1, 1], pads=[0, 0, 0, 0], "
        "dilations=[1, 1, 1, 2], groups=3), axis=[2])",
    ),
    (
        lambda x, w, b: functional.conv2d(x, w, b, padding=(1, 0), groups=2),
        [t(2, 4, 5, 6, dtype=f64), t(6, 2, 3, 2, dtype=f64), t(6, dtype=f64)],
        "Conv2D(x, w, b, strides=[1, 1, 1, 1], pads=[1, 1, 0, 0], groups=2)",
    ),
    (
        lambda x, w, b: functional.conv_transpose2d(x, w, b, stride=(2, 1), padding=1, output_padding=(1, 0)),
        [t(2, 3, 5, 6), t(3, 4, 3, 3), t(4)],
        "Conv2DTranspose([2, 4, 10, 6], x, w, b, strides=[1, 1, 2, 1], pads=[1, 1, 1, 1], output_padding=[0, 0, 1, 0])",
    ),
    (
        lambda x, w: functional.conv_transpose1d(x, w, stride=3, dilation=2, groups=2),
        [t(2, 4, 5), t(4, 3, 4)],
        "Squeeze(Conv2DTranspose([2, 6, 1, 19], Unsqueeze(x, axes=[2]), Unsqueeze(w, axes=[2]), "
        "strides=[1, 1, 1, 3], pads=[0, 0, 0, 0], dilations=[1, 1, 1, 2], groups=2), axis=[2])",
    ),
]

LAYERS: list[Case] = [
    (
        lambda x, w: functional.layer_norm(x, (3,), w, None, 1e-6),
        [t(2, 3), t(3)],
        "LayerNormV4(x, [3], w, epsilon=1e-06)[0]",
    ),
    (
        lambda x, m, v: aten._native_batch_norm_legit_no_training(x, None, None, m, v, 0.1, 1e-3)[0],
        [t(2, 3, 4, 4), t(3), t(3)],
        "BNInfer(x, Fill([3], 1.0), Fill([3], 0.0), m, v, epsilon=0.001)",
    ),
    (
        lambda x: functional.max_pool2d(x, 3, 2, 1),
        [t(1, 2, 8, 8)],
        "MaxPoolWithArgmaxV3(x, ksize=[3, 3], strides=[2, 2], pads=[1, 1], dtype=9)[0]",
    ),
    (
        lambda x: functional.max_pool2d(x, (3, 2)),
        [t(2, 8, 8)],
        "Squeeze(MaxPoolWithArgmaxV3(Unsqueeze(x, axes=[0]), ksize=[3, 2], strides=[3, 2], pads=[0, 0], dtype=9)[0], "
        "axis=[0])",
    ),
    (lambda x: aten._adaptive_avg_pool2d(x, [2, 3]), [t(1, 2, 8, 8)], "AdaptiveAvgPool2d(x, output_size=[2, 3])"),
    (
        lambda x: functional.avg_pool2d(x, (3, 2), padding=1),
        [t(1, 2, 8, 8)],
        "AvgPoolV2(x, ksize=[1, 1, 3, 2], strides=[1, 1, 3, 2], pads=[1, 1, 1, 1], exclusive=False)",
    ),
    (
        lambda x: functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        [t(2, 8, 7)],
        "Squeeze(AvgPoolV2(Unsqueeze(x, axes=[0]), ksize=[1, 1, 3, 3], strides=[1, 1, 2, 2], pads=[1, 1, 1, 1], "
        "ceil_mode=True), axis=[0])",
    ),
    (
        lambda x: functional.avg_pool2d(x, 300, padding=(2, 0), ceil_mode=True),
        [t(1, 2, 5, 4)],
        "AvgPoolV2(x, ksize=[1, 1, 300, 300], strides=[1, 1, 300, 300], pads=[2, 2, 0, 0], ceil_mode=True, "
        "exclusive=False)",
    ),
    (
        lambda x: functional.avg_pool2d(x, 2, divisor_override=3),
        [t(1, 2, 4, 4)],
        "AvgPoolV2(x, ksize=[1, 1, 2, 2], strides=[1, 1, 2, 2], exclusive=False, divisor_override=3)",
    ),
    (
        lambda x, w, b: functional.group_norm(x, 2, w, b, 1e-3),
        [t(2, 4, 3, 3), t(4), t(4)],
        "GroupNormV2(x, w, b, num_groups=2, eps=0.001)[0]",
    ),
    (
        lambda x: aten.native_group_norm(x, None, None, 2, 4, 9, 2, 1e-5)[1:],
        [t(2, 4, 3, 3)],
        "; ".join(f"GroupNormV2(x, Fill([4], 1.0), Fill([4], 0.0), num_groups=2)[{i}]" for i in (1, 2)),
    ),
]

# [batch, heads, tokens, width]
QUERY, KEY = t(1, 2, 4, 16), t(1, 2, 5, 16)
FIXED = "num_heads=2, scale_value={}, pre_tokens=2147483647{}, input_layout='BNSD', num_key_value_heads=0"
attend = functional.scaled_dot_product_attention
ATTENTION: list[Case] = [
    (
        lambda q, k, v: attend(q, k, v),
        [QUERY, KEY, KEY],
        f"PromptFlashAttention(q, k, v, {FIXED.format(0.25, ', next_tokens=2147483647')})",
    ),
    (
        lambda q, k, v: attend(q, k, v, is_causal=True),
        [QUERY, KEY, KEY],
        f"PromptFlashAttention(q, k, v, {FIXED.format(0.25, '')})",
    ),
    (
        lambda q, k, v, m: attend(q, k, v, m, scale=0.5),
        [QUERY, KEY, KEY, t(1, 1, 4, 5)],
        f"PromptFlashAttention(q, k, v, m, {FIXED.format(0.5, ', next_tokens=2147483647')})",
    ),
    (
        lambda q, k, v: attend(q, k, v, enable_gqa=True),
        [t(1, 6, 4, 16), KEY, KEY],
        "PromptFlashAttention(q, k, v, num_heads=6, scale_value=0.25, pre_tokens=2147483647, next_tokens=2147483647, "
        "input_layout='BNSD', num_key_value_heads=2)",
    ),
]


CASES = [*REDUCTIONS, *PRODUCTS, *LAYERS, *ATTENTION]
by_case = pytest.mark.parametrize(("function", "inputs", "expected"), CASES, ids=[text for *_, text in CASES])


@by_case
def test_functions_become_the_expected_operators(
    function: Callable[..., Any], inputs: list[torch.Tensor], expected: str
) -> None:
    assert converted(function, *inputs) == expected


@by_case
def test_converted_functions_keep_their_values(
    function: Callable[..., Any], inputs: list[torch.Tensor], expected: str
) -> None:
    check_values(function, *inputs)


def test_images_have_a_format() -> None:
    gm = traced(lambda x, w: functional.max_pool2d(functional.conv2d(x, w), 2), t(1, 3, 8, 8), t(4, 3, 3, 3))
    graph = built(gm).graph
    normalise(graph.proto)
    by_type = {op.type: op for op in graph.op}
    for op_type in ("Conv2D", "MaxPoolWithArgmaxV3"):
        op = by_type[op_type]
        descs = [desc for desc in (*op.input_desc, *op.output_desc) if UNFED not in desc.attr]
        assert {desc.layout for desc in descs} == {"NCHW"}


@pytest.mark.parametrize(
    ("function", "inputs", "reason"),
    [
        (
            lambda q, k, v: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.5)[0],
            [QUERY, KEY, KEY],
            "its argument dropout_p is 0.5",
        ),
        (
            lambda x, m, v: aten._native_batch_norm_legit_no_training(x, None, None, m, v, 0.1, 1e-3)[1],
            [t(2, 3, 4, 4), t(3), t(3)],
            "its result 1 is not computed",
        ),
    ],
)
def test_arguments_that_are_not_converted(
    function: Callable[..., Any], inputs: list[torch.Tensor], reason: str
) -> None:
    with pytest.raises(MissingConverters, match=reason):
        converted(function, *inputs)


def test_a_mask_of_booleans_is_added_as_numbers() -> None:
    mask = t(1, 1, 4, 5, dtype=flags)
    operator = aten._scaled_dot_product_flash_attention_for_cpu
    text = converted(lambda q, k, v, m: operator(q, k, v, attn_mask=m)[0], QUERY, KEY, KEY, mask)
    assert text.startswith("PromptFlashAttention(q, k, v, SelectV2(m, 0.0, -inf), ")
