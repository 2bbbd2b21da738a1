# SPDX-License-Identifier: Apache-2.0
"""Converters that sort and find elements, of activations, gradients, losses and padding: the operators that they add,
and what the engine computes of them, in several element types, with sizes that are known and that only a run knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.python.ge.converted import check_values, converted
from tests.python.ge.converted import random_tensor as t

aten = torch.ops.aten
functional = torch.nn.functional
f32, bf16, f16, i64, i32, i8 = torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int8

Case = tuple[Callable[..., Any], list[torch.Tensor], str]

X = t(3, 8)
TIES = torch.randint(0, 4, (20, 64), generator=torch.Generator().manual_seed(0)).to(f32)
CLASSES = torch.tensor([1, 2, 7])

ORDER: list[Case] = [
    (lambda x: x.topk(3), [X], "TopKV2(x, 3:INT32)[0]; TopKV2(x, 3:INT32)[1]"),
    (
        lambda x: x.topk(2, 0, largest=False),
        [X],
        "; ".join(f"TopKV2(x, 2:INT32, dim=0, largest=False)[{i}]" for i in (0, 1)),
    ),
    # Among equal elements, the engine chooses those that ATen chooses.
    (lambda x: x.topk(8), [TIES], "TopKV2(x, 8:INT32)[0]; TopKV2(x, 8:INT32)[1]"),
    (lambda x: x.topk(1), [TIES], "TopKV2(x, 1:INT32)[0]; TopKV2(x, 1:INT32)[1]"),
    (lambda x: x.topk(3)[1], [torch.log(X)], "TopKV2(x, 3:INT32)[1]"),  # NaN is the largest
    (lambda x: x.sort(), [X], "Sort(x)[0]; Sort(x)[1]"),
    (lambda x: x.sort(descending=True), [torch.log(X)], "Sort(x, descending=True)[0]; Sort(x, descending=True)[1]"),
    (
        lambda x: torch.sort(x, stable=True, dim=0)[1],
        [TIES],
        "Transpose(Sort(Transpose(x, [1, 0]), stable=True)[1], [1, 0])",
    ),
    (lambda x: torch.sort(x, stable=True), [t(3, 40, dtype=i64)], "Sort(x, stable=True)[0]; Sort(x, stable=True)[1]"),
    (lambda x: x.cummax(1), [X], "Cummax(x, dim=1)[0]; Cummax(x, dim=1)[1]"),
    (lambda s, v: torch.searchsorted(s, v, right=True), [X.sort()[0], t(3, 5)], "SearchSorted(s, v, right=True)"),
    (
        lambda s, v: torch.searchsorted(s, v, side="right", out_int32=True),
        [torch.arange(9), t(3, 5)],
        "SearchSorted(Cast(s, FLOAT), v, dtype=3, right=True)",
    ),
    (
        lambda s, v, o: torch.searchsorted(s, v, sorter=o),
        [X[0], t(3, 5), X[0].argsort()],
        "SearchSorted(s, v, o)",
    ),
]

ACTIVATIONS: list[Case] = [
    (lambda x: functional.hardswish(x), [X * 3], "HardSwish(x)"),
    (lambda x: functional.hardsigmoid(x), [X * 3], "HardSigmoid(x)"),
    (lambda x: functional.leaky_relu(x, 0.2), [X], "LeakyRelu(x, negative_slope=0.2)"),
    (lambda x: aten.elu(x, 1.5, 2.0, 0.5), [X], "Elu(x, alpha=1.5, scale=2, input_scale=0.5)"),
    (lambda x: functional.mish(x), [X], "Mish(x)"),
    (lambda x: functional.glu(x), [X], "GLU(x)"),
    (lambda x: functional.logsigmoid(x), [X], "LogSigmoid(x)"),
    (lambda x, w: aten._prelu_kernel(x, w), [X, t(1, 8)], "PRelu(x, w)"),
    (lambda x: aten.threshold(x, 0.5, 2.0), [X], "ThresholdV2(x, 0.5, 2.0)"),
    (lambda x: x.sign(), [X], "Sign(x)"),
    (lambda x: x.sign(), [t(3, 4, dtype=i64) - 2], "Sign(x)"),
    (lambda x: x.sgn(), [X], "Sign(x)"),
    (lambda x: x.round(), [X * 3], "Round(x)"),
    (lambda x: x.tan(), [X], "Tan(x)"),
    (lambda x: x.asin(), [X.tanh()], "Asin(x)"),
    (lambda x: x.acos(), [X.tanh()], "Acos(x)"),
    (lambda x: x.atan(), [X], "Atan(x)"),
    (lambda x: x.sinh(), [X], "Sinh(x)"),
    (lambda x: x.cosh(), [X], "Cosh(x)"),
    (lambda x: x.asinh(), [torch.cat((X, X * 1e-4, X * 1e30))], "Asinh(x)"),
    (lambda x: x.acosh(), [torch.cat((1 + X.abs(), 1 + X.abs() * 1e-2, 1 + X.abs() * 1e30))], "Acosh(x)"),
    (lambda x: x.atanh(), [torch.cat((X.tanh(), X * 1e-4, X.sign()))], "Atanh(x)"),
    (lambda x: x.expm1(), [X], "Expm1(x)"),
    (lambda x, y, z: torch.addcmul(x, y, z, value=0.5), [X, X * 2, X + 1], "Addcmul(x, y, z, 0.5)"),
    (lambda x, y, z: torch.addcmul(x, y, z, value=2), [t(4, dtype=i64)] * 3, "Addcmul(x, y, z, 2)"),
    (lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), [X, X * 2, X.exp()], "Addcdiv(x, y, z, 0.5)"),
    (lambda x, y: torch.lerp(x, y, 0.25), [X, X * 2], "Lerp(x, y, 0.25)"),
    (lambda x: aten.floor_divide.Scalar(x, 3), [t(3, 4, dtype=i64)], "FloorDiv(x, 3)"),
]

REDUCTIONS: list[Case] = [
    (lambda x: x.logsumexp(-1), [X], "ReduceLogSumExp(x, [-1])"),
    (lambda x: x.logsumexp((0, 1), True), [X], "ReduceLogSumExp(x, [0, 1], keep_dims=True)"),
    (lambda x: x.std(-1), [X], "ReduceStdV2(x, dim=[1])[0]"),
    (
        lambda x: torch.std(x, correction=0, keepdim=True),
        [X],
        "ReduceStdV2(x, dim=[0, 1], correction=0, keepdim=True)[0]",
    ),
]

PLACES: list[Case] = [
    (lambda x: x.flip(0, -1), [X], "ReverseV2(x, [0, -1])"),
    (
        lambda x: functional.pad(x, (1, 2, 2, 1), mode="reflect"),
        [t(1, 2, 5, 6)],
        "MirrorPad(x, [0, 0, 0, 0, 2, 1, 1, 2], mode='REFLECT')",
    ),
    (lambda x: functional.pad(x, (1, 2), mode="replicate"), [t(2, 5, 6)], "PadV3(x, [0, 0, 0, 0, 1, 2], mode='edge')"),
    (lambda x: aten.upsample_nearest2d(x, [7, 3]), [t(1, 2, 5, 6)], "ResizeNearestNeighborV2(x, [7, 3]:INT32)"),
    (
        lambda x, i, s: x.index_add(0, i, s, alpha=2),
        [X, torch.tensor([2, 0, 1]), X],
        "InplaceIndexAdd(TensorMove(x), i, s, 2.0, axis=0)",
    ),
]

GRADIENTS: list[Case] = [
    (lambda g, x: aten.sigmoid_backward(g, x), [X, X * 2], "SigmoidGrad(x, g)"),
    (lambda g, x: aten.tanh_backward(g, x), [X, X * 2], "TanhGrad(x, g)"),
    (lambda g, x: aten.gelu_backward(g, x), [X, X * 2], "GeluGradV2(g, x)"),
    (
        lambda g, x: aten.gelu_backward(g, x, approximate="tanh"),
        [X, X * 2],
        "GeluGradV2(g, x, approximate='tanh')",
    ),
    (lambda g, x: aten.silu_backward(g, x), [X, X * 2], "SwishGrad(g, x, Swish(x))"),
    (lambda g, x: aten.hardswish_backward(g, x), [X, X * 3], "HardSwishGrad(g, x)"),
    (lambda g, x: aten.hardsigmoid_backward(g, x), [X, X * 3], "HardSigmoidGrad(g, x)"),
    (lambda g, x: aten.hardtanh_backward(g, x, -1, 0.5), [X, X * 2], "HardtanhGrad(x, g, max_val=0.5)"),
    (
        lambda g, x: aten.leaky_relu_backward(g, x, 0.1, False),
        [X, X * 2],
        "LeakyReluGrad(g, x, negative_slope=0.1)",
    ),
    (lambda g, x: aten.threshold_backward(g, x, 0), [X, X * 2], "ReluGrad(g, x)"),
    (lambda g, x: aten.threshold_backward(g, x, 0.5), [X, X * 2], "ThresholdGradV2D(g, x, threshold=0.5)"),
    (
        lambda g, x: aten.elu_backward(g, 1.5, 2.0, 0.5, False, x),
        [X, X * 2],
        "EluGradV2(g, x, alpha=1.5, scale=2, input_scale=0.5)",
    ),
    (
        lambda g, x: aten.elu_backward(g, 1.5, 2.0, 0.5, True, x),
        [X, X * 2],
        "EluGradV2(g, x, alpha=1.5, scale=2, input_scale=0.5, is_result=True)",
    ),
    (lambda g, x, b: aten.log_sigmoid_backward(g, x, b), [X, X * 2, (-(X * 2).abs()).exp()], "LogSigmoidGrad(g, x)"),
    (lambda g, x: aten.glu_backward(g, x, -1), [t(3, 4), X], "GLUGrad(g, x)"),
    (lambda g, y: aten._softmax_backward_data(g, y, -1, g.dtype), [X, X.softmax(-1)], "SoftmaxGrad(y, g)"),
    (
        lambda g: aten.select_backward(g, [g.size(0), 5, g.size(1)], 1, -2),
        [X],
        "ScatterElements(Fill([3, 5, 8], 0.0), BroadcastTo(Unsqueeze([3], axes=[0, 2]), [3, 1, 8]), ExpandDims(g, 1), "
        "axis=1)",
    ),
    (
        lambda g: aten.slice_backward(g, [g.size(0), 20], 1, 3, 19, 2),
        [X],
        "ScatterElements(Fill([3, 20], 0.0), BroadcastTo(Unsqueeze(Range(3, 19, 2), axes=[0]), [3, 8]), g, axis=1)",
    ),
    (
        lambda g, i: aten.embedding_dense_backward(g, i, 9, -1, False),
        [t(4, 8), torch.tensor([1, 1, 3, 8])],
        "EmbeddingDenseGrad(g, i, num_weights=9)",
    ),
]

LOSSES: list[Case] = [
    (lambda x, y: functional.mse_loss(x, y), [X, X * 2], "MseLoss(x, y)"),
    (lambda x, y: functional.mse_loss(x, y, reduction="sum"), [X, X * 2], "MseLoss(x, y, reduction='sum')"),
]

ANY_FLOAT = [*ORDER, *ACTIVATIONS, *REDUCTIONS, *PLACES, *GRADIENTS, *LOSSES]

FLOAT32: list[Case] = [
    (lambda g, x, y: aten.mse_loss_backward(g, x, y, 1), [t(), X, X * 2], "MseLossGrad(x, y, g)"),
    (lambda x: torch.histc(x, 5, -1, 1), [X], "Histogram(x, bins=5, min=-1, max=1)"),
    (lambda x: torch.histc(x, 5), [X], "Histogram(x, bins=5)"),
    (
        lambda g, y: aten._log_softmax_backward_data(g, y, -1, f32),
        [X, X.log_softmax(-1)],
        "LogSoftmaxGrad(g, y)",
    ),
    (lambda x: aten.nan_to_num(torch.log(x), 2.0, 5.0, -3.0), [X], "NanToNum(Log(x), nan=2, posinf=5, neginf=-3)"),
    (lambda x, y: functional.nll_loss(x, y), [X, CLASSES], "NLLLoss(x, y)[0]"),
    (lambda x, y: functional.nll_loss(x, y, reduction="none"), [X, CLASSES], "NLLLoss(x, y, reduction='none')[0]"),
    (
        lambda x, y, w: aten.nll_loss_forward(x, y, w, 1, 2),
        [X, CLASSES, t(8).abs()],
        "NLLLoss(x, y, w, ignore_index=2)[0]; NLLLoss(x, y, w, ignore_index=2)[1]",
    ),
    (
        lambda g, x, y, w, n: aten.nll_loss_backward(g, x, y, w, 1, 2, n),
        [t(), X, CLASSES, t(8).abs(), torch.tensor(3.0)],
        "NLLLossGrad(x, g, y, w, n, ignore_index=2)",
    ),
    (
        lambda v, g: aten._weight_norm_interface(v, g),
        [t(4, 5, 3), t(4, 1, 1)],
        "Mul(v, RealDiv(g, LpNormV2(v, axes=[1, 2], keepdim=True, epsilon=0))); "
        "LpNormV2(v, axes=[1, 2], keepdim=True, epsilon=0)",
    ),
    (
        lambda a, b: aten._int_mm(a, b),
        [t(32, 16, dtype=i64).to(i8), t(16, 8, dtype=i64).to(i8)],
        "MatMulV2(a, b)",
    ),
]

# Attention: the logarithms of its sums are those of the scores, which are computed again.
QUERY, KEY = t(1, 2, 4, 16), t(1, 2, 5, 16)
attend = aten._scaled_dot_product_flash_attention_for_cpu
SCORES = "Mul(BatchMatMul(q, k, adj_x2=True), 0.25)"
STATIC: list[Case] = [
    (lambda q, k: attend(q, k, k)[1], [QUERY, KEY], f"ReduceLogSumExp({SCORES}, [3])"),
    (
        lambda q, k, m: attend(q, k, k, attn_mask=m)[1],
        [QUERY, KEY, t(1, 1, 4, 5)],
        f"ReduceLogSumExp(Add({SCORES}, m), [3])",
    ),
    (
        lambda q, k: attend(q, k, k, 0.0, True)[1],
        [QUERY, KEY],
        f"ReduceLogSumExp(SelectV2(Equal(Tril(OnesLike({SCORES})), 1.0), {SCORES}, -inf), [3])",
    ),
    (lambda x: torch.linspace(0, 1, 7) + x, [t(7)], "Add(LinSpace(0.0, 1.0, 7), x)"),
    (
        lambda x: functional.interpolate(x, scale_factor=2, mode="nearest"),
        [t(1, 2, 5, 6)],
        "ResizeNearestNeighborV2(x, [10, 12]:INT32)",
    ),
    (
        lambda a, b, ends: aten._grouped_mm(a, b, ends),
        [t(6, 8, dtype=bf16), t(3, 8, 16, dtype=bf16), torch.tensor([2, 2, 6], dtype=i32)],
        "GroupedMatmul([a], [b], [], [], [], [], [], Cast(ends, INT64), split_item=3, group_type=0)[0]",
    ),
]

CASES = [*ANY_FLOAT, *FLOAT32, *STATIC]


def names(cases: list[Case]) -> list[str]:
    return [text for *_, text in cases]


@pytest.mark.parametrize(("function", "inputs", "expected"), CASES, ids=names(CASES))
def test_functions_become_the_expected_operators(
    function: Callable[..., Any], inputs: list[torch.Tensor], expected: str
) -> None:
    assert converted(function, *inputs) == expected


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [f32, bf16, f16])
@pytest.mark.parametrize(("function", "inputs", "expected"), ANY_FLOAT, ids=names(ANY_FLOAT))
def test_values_in_all_types_of_floats(
    function: Callable[..., Any], inputs: list[torch.Tensor], expected: str, dtype: torch.dtype
) -> None:
    check_values(function, *(x.to(dtype) if x.is_floating_point() else x for x in inputs))


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize(("function", "inputs", "expected"), ANY_FLOAT, ids=names(ANY_FLOAT))
def test_values_with_sizes_that_only_a_run_knows(
    function: Callable[..., Any], inputs: list[torch.Tensor], expected: str, dtype: torch.dtype
) -> None:
    check_values(function, *(x.to(dtype) if x.is_floating_point() else x for x in inputs), dynamic=True)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("function", "inputs", "expected"), FLOAT32, ids=names(FLOAT32))
def test_values_in_one_type(
    function: Callable[..., Any], inputs: list[torch.Tensor], expected: str, dynamic: bool
) -> None:
    check_values(function, *inputs, dynamic=dynamic)


@pytest.mark.parametrize(("function", "inputs", "expected"), STATIC, ids=names(STATIC))
def test_values_with_known_sizes(function: Callable[..., Any], inputs: list[torch.Tensor], expected: str) -> None:
    check_values(function, *inputs)
