# SPDX-License-Identifier: Apache-2.0
"""Operators of ATen whose operators of Ascend IR have no rule: parts compute them, or operators of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from npugraph.ge.converters.user_operators import OPERATOR
from npugraph.ge.fx import operator_parts
from npugraph.ge.fx.operator_parts import PARTS
from npugraph.ge.normalise import normalise
from tests.python.ge.converted import built, check_values, run, traced
from tests.python.ge.converted import random_tensor as t

aten = torch.ops.aten
f32, bf16, i64 = torch.float32, torch.bfloat16, torch.int64

# A function, its operands, and the types of the operators that it becomes.
Case = tuple[Callable[..., Any], list[Any], str]

X, Y, IMAGES, VOLUMES = t(2, 6), t(2, 6) * 2, t(2, 4, 6, 8), t(2, 4, 4, 6, 8)
CHANNELS = t(4).abs() + 1
ALL = [True, True, True]


def windows(stride: int = 1, padding: int = 1, transposed: bool = False, more: int = 0, dims: int = 2) -> list[Any]:
    return [[stride] * dims, [padding] * dims, [1] * dims, transposed, [more] * dims, 1]


def gradients_of_convolution(how: Sequence[Any], mask: Sequence[bool] = ALL) -> Callable[..., Any]:
    def function(grad: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
        return [g for g in aten.convolution_backward(grad, x, w, [grad.shape[1]], *how, list(mask)) if g is not None]

    return function


def gradients_of_batch_norm(train: bool) -> Callable[..., Any]:
    def function(grad: torch.Tensor, x: torch.Tensor, w: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> Any:
        return aten.native_batch_norm_backward(grad, x, w, m, v, m, v, train, 1e-5, ALL)

    return function


def max_pool_gradient(x: torch.Tensor) -> torch.Tensor:
    y, places = aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
    return aten.max_pool2d_with_indices_backward(y * 2, x, [3, 3], [2, 2], [1, 1], [1, 1], False, places)


GRADIENTS: list[Case] = [
    (
        lambda g, x, w, m, r: aten.native_layer_norm_backward(g, x, [6], m, r, w, None, [True, True, False])[:2],
        [X, Y, t(6), t(2, 1), t(2, 1).abs()],
        "LayerNormGradV3",
    ),
    (
        lambda g, x, m, r, w: aten.native_group_norm_backward(
            g, x, m, r, w, x.shape[0], x.shape[1], x.shape[2] * x.shape[3], 2, ALL
        ),
        [IMAGES, IMAGES * 2, t(2, 2), t(2, 2).abs(), t(4)],
        "GroupNormGrad",
    ),
    (gradients_of_batch_norm(True), [IMAGES, IMAGES * 2, t(4), t(4), CHANNELS], "BatchNormGradV3"),
    (gradients_of_batch_norm(False), [IMAGES, IMAGES * 2, t(4), t(4), CHANNELS], "BatchNormGradV3 Fill"),
    (
        lambda x, w, b, m, v: aten._native_batch_norm_legit_functional(x, w, b, m, v, True, 0.1, 1e-5),
        [IMAGES, t(4), t(4), t(4), CHANNELS],
        "BatchNormV3 TensorMove",
    ),
    (
        lambda x, w, b: aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5),
        [IMAGES, t(4), t(4)],
        "BatchNormV3 Fill TensorMove",
    ),
    (max_pool_gradient, [IMAGES], "MaxPoolGradWithArgmaxV3 MaxPoolWithArgmaxV3 Mul"),
    (
        lambda g, x: aten.avg_pool2d_backward(g, x, [2, 2], [2, 2], [0, 0], False, True, None),
        [t(2, 4, 3, 4), IMAGES],
        "AvgPoolV2Grad",
    ),
    (lambda g, x, w: aten._prelu_kernel_backward(g, x, w), [X, Y, t(1, 6)], "PReluGrad"),
    (
        lambda x: aten.reflection_pad2d_backward(aten.reflection_pad2d(x, [1, 1, 2, 1]) * 2, x, [1, 1, 2, 1]),
        [IMAGES],
        "MirrorPad Mul PadV3Grad",
    ),
    (
        lambda x: aten.replication_pad1d_backward(aten.replication_pad1d(x, [1, 2]) * 2, x, [1, 2]),
        [t(2, 4, 6)],
        "Mul PadV3 PadV3Grad",
    ),
    (
        lambda g, x: aten.upsample_nearest2d_backward(g, [12, 16], [x.shape[0], 4, 6, 8], None, None),
        [t(2, 4, 12, 16), IMAGES],
        "ResizeNearestNeighborV2Grad",
    ),
    (
        lambda g, x, p: aten.grid_sampler_2d_backward(g, x, p, 0, 0, False, [True, True]),
        [t(2, 4, 3, 5), IMAGES, t(2, 3, 5, 2)],
        "GridSampler2DGrad",
    ),
    (
        gradients_of_convolution(windows()),
        [t(2, 5, 6, 8), IMAGES, t(5, 4, 3, 3)],
        "Conv2DBackpropFilter Conv2DBackpropInput ReduceSum",
    ),
    (
        gradients_of_convolution(windows(2, dims=1), [True, True, False]),
        [t(2, 5, 4), t(2, 4, 8), t(5, 4, 3)],
        "Conv2DBackpropFilter Conv2DBackpropInput Squeeze Unsqueeze",
    ),
    (
        gradients_of_convolution(windows(2, 1, True, 1)),
        [t(2, 5, 12, 16), IMAGES, t(4, 5, 3, 3)],
        "Conv2D Conv2DBackpropFilter ReduceSum",
    ),
    (
        gradients_of_convolution(windows(dims=3)),
        [t(2, 5, 4, 6, 8), VOLUMES, t(5, 4, 3, 3, 3)],
        "Conv3DBackpropFilter Conv3DBackpropInput ReduceSum",
    ),
    (
        gradients_of_convolution(windows(2, 1, True, 1, dims=3), [True, True, False]),
        [t(2, 5, 8, 12, 16), VOLUMES, t(4, 5, 3, 3, 3)],
        "Conv3D Conv3DBackpropFilter",
    ),
    (
        lambda g, x: aten.slice_backward(g, x.shape, 1, 1, 2**63 - 1, 1),
        [t(2, 5), X],
        "BroadcastTo Fill Range ScatterElements Unsqueeze",
    ),
    (
        lambda g, x: aten.slice_backward(g, x.shape, 1, -3, 2**63 - 1, 2),
        [t(3, 2), t(3, 6)],
        "BroadcastTo Fill Range ScatterElements Unsqueeze",
    ),
    (lambda g, m: aten.native_dropout_backward(g, m, 1.25), [X, t(2, 6, dtype=torch.bool)], "DropOutDoMask"),
]

# Sizes are known, or the case is one of a single type.
STATIC: list[Case] = [
    (
        lambda a, b: aten.linalg_solve_triangular(a, b, upper=False),
        [t(2, 4, 4) + 4 * torch.eye(4), t(2, 4, 3)],
        "MatrixTriangularSolve",
    ),
    (
        lambda a, b: aten.linalg_solve_triangular(a, b, upper=True, unitriangular=True),
        [t(2, 4, 4), t(2, 4, 3)],
        "Equal MatrixTriangularSolve Range SelectV2 Unsqueeze",
    ),
    (
        lambda x, w: aten.convolution(x, w, None, *windows(2, 1, True, 1, dims=3)),
        [VOLUMES, t(4, 5, 3, 3, 3)],
        "Conv3DTranspose",
    ),
    (
        lambda x, y: aten.as_strided_scatter(x, y, [2, 2], [6, 1], 1),
        [X, t(2, 2)],
        "TensorMove ViewCopy",
    ),
    (lambda x: x.new_empty_strided([2, 3], [1, 2]) * 0, [X], "Fill Mul Transpose"),
]
FORWARD: list[Case] = [
    (lambda x: aten.im2col(x, [3, 2], [1, 2], [1, 0], [2, 1]), [IMAGES], "Im2col"),
    (lambda x: aten.col2im(x, [6, 8], [2, 2], [1, 1], [0, 0], [2, 2]), [t(2, 16, 12)], "Col2im"),
    (lambda x: aten.pixel_shuffle(x, 2), [IMAGES], "DepthToSpace"),
    (lambda x: torch.erfinv(x), [t(2, 6).tanh()], "Erfinv"),
    (lambda x, n: torch.bitwise_right_shift(x, n), [t(6, dtype=i64), t(6, dtype=i64)], "RightShift"),
    (lambda x, p: aten.grid_sampler_2d(x, p, 0, 0, False), [IMAGES, t(2, 3, 5, 2)], "GridSampler2D"),
    (lambda x, p: aten.grid_sampler_2d(x, p, 1, 1, True), [IMAGES, t(2, 3, 5, 2)], "GridSampler2D"),
    (lambda x, p: aten.grid_sampler_2d(x, p, 2, 1, False), [IMAGES, t(2, 3, 5, 2)], "GridSampler2D"),
    (lambda x, p: aten.grid_sampler_2d(x, p, 0, 2, False), [IMAGES, t(2, 3, 5, 2)], "GridSampler2D"),
    (
        lambda x, p: aten.grid_sampler_3d(x, p, 1, 1, True),
        [VOLUMES, t(2, 3, 5, 2, 3)],
        "GridSampler3D",
    ),
    (lambda x: aten.max_pool3d_with_indices(x, [2, 2, 2]), [VOLUMES], "MaxPool3DWithArgmaxV2"),
    (
        lambda x, w, b: aten.convolution(x, w, b, *windows(dims=3)),
        [VOLUMES, t(5, 4, 3, 3, 3), t(5)],
        "Conv3D",
    ),
    (
        lambda w, i, o: aten._embedding_bag(w, i, o, False, 1)[0],
        [t(5, 8), torch.tensor([0, 2, 4, 4]), torch.tensor([0, 3])],
        "EmbeddingBag",
    ),
    (lambda x: x.view(torch.int32) + 1, [X], "Add Bitcast Identity"),
    (
        lambda a, b, ends: aten._grouped_mm(a, b, ends),
        [t(8, 16, dtype=bf16), t(16, 8, dtype=bf16), torch.tensor([4, 4, 16], dtype=torch.int32)],
        "GroupedMatmul",
    ),
]

# Names of operators on lists with their arguments behind the first list. They become ``Foreach`` and a name.
TENSORS, OTHERS = [t(2, 6).abs() + 0.1, t(3).abs() + 0.1], [t(2, 6).abs() + 0.5, t(3) + 0.5]
NUMBERS = [2.0, 3.0]
OF_ONE = (
    *("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "log"),
    *("log10", "log1p", "log2", "round", "sigmoid", "sin", "sinh", "tan", "tanh", "trunc"),
)
LISTS: list[tuple[str, tuple[Any, ...]]] = [
    *((f"{name}.default", ()) for name in OF_ONE),
    *((f"{name}.List", (OTHERS,)) for name in ("add", "div", "maximum", "minimum", "mul", "pow", "sub")),
    *((f"{name}.Scalar", (2.0,)) for name in ("add", "div", "maximum", "minimum", "mul", "norm", "pow", "sub")),
    *((f"{name}.ScalarList", (NUMBERS,)) for name in ("add", "div", "maximum", "minimum", "mul", "pow", "sub")),
    *((f"{name}.Scalar", (OTHERS, OTHERS, 2.0)) for name in ("addcdiv", "addcmul")),
    *((f"{name}.ScalarList", (OTHERS, OTHERS, NUMBERS)) for name in ("addcdiv", "addcmul")),
    ("lerp.List", (OTHERS, OTHERS)),
    ("lerp.Scalar", (OTHERS, 0.3)),
]


def types_of(gm: fx.GraphModule) -> str:
    types = {op.type for op in built(gm).graph.op}
    return " ".join(sorted(types - {"Data", "Const", "NetOutput", "Shape", "Gather", "Pack"}))


@pytest.mark.parametrize(("name", "args"), LISTS, ids=[name for name, _ in LISTS])
def test_operators_on_lists_of_tensors(name: str, args: Sequence[Any]) -> None:
    """One operator of Ascend IR, whose parts are an operator for each tensor."""
    packet, overload = name.split(".")
    operator = getattr(getattr(aten, f"_foreach_{packet}"), overload)
    leaves, spec = pytree.tree_flatten((TENSORS, *args))
    tensors = {place: leaf for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}

    def function(*values: torch.Tensor) -> Any:
        known = dict(zip(tensors, values, strict=True))
        return operator(*pytree.tree_unflatten([known.get(i, leaf) for i, leaf in enumerate(leaves)], spec))

    inputs = list(tensors.values())
    with torch.no_grad():
        gm = make_fx(function, tracing_mode="fake")(*inputs)
    op_type = types_of(gm)
    assert op_type.startswith("Foreach") and " " not in op_type
    assert packet in op_type.lower() or op_type == "ForeachRoundOffNumber"
    torch.testing.assert_close(list(run(built(gm), inputs)), list(function(*inputs)), equal_nan=True)


def names(cases: Sequence[Case]) -> list[str]:
    return [types for *_, types in cases]


CASES = [*GRADIENTS, *FORWARD, *STATIC]


@pytest.mark.parametrize(("function", "inputs", "types"), CASES, ids=names(CASES))
def test_the_operators_of_the_table(function: Callable[..., Any], inputs: list[Any], types: str) -> None:
    assert types_of(traced(function, *inputs)) == types


def test_a_draw_is_traced_once_for_equal_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that differ only in what they read share their parts."""
    traces = []
    trace = operator_parts.Operands.trace
    monkeypatch.setattr(operator_parts.Operands, "trace", lambda self, wanted: traces.append(1) or trace(self, wanted))
    gm = traced(lambda x, y: torch.erfinv(torch.erfinv(x) * y), X.tanh(), Y)
    assert [op.type for op in built(gm).graph.op].count("Erfinv") == 2 and len(traces) == 1


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [f32, bf16])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("function", "inputs", "types"), [*GRADIENTS, *FORWARD], ids=names([*GRADIENTS, *FORWARD]))
def test_values(function: Callable[..., Any], inputs: list[Any], types: str, dynamic: bool, dtype: torch.dtype) -> None:
    """Those of eager mode, with its strides. Training in a half type rounds in other places than eager mode."""
    kind = f32 if types.startswith(("Add", "BatchNormV3")) else bf16 if types == "GroupedMatmul" else dtype
    check_values(function, *(x.to(kind) if x.is_floating_point() else x for x in inputs), dynamic=dynamic)


@pytest.mark.parametrize(("function", "inputs", "types"), STATIC, ids=names(STATIC))
def test_values_with_known_sizes(function: Callable[..., Any], inputs: list[Any], types: str) -> None:
    check_values(function, *inputs)


@pytest.mark.parametrize("tokens", [6, 900])
def test_gradients_of_attention(tokens: int) -> None:
    """By products where all scores fit into a cache, and else by the operator of the host."""
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
    q, k, v, grad = (t(1, 4, tokens, 8) * scale for scale in (0.5, 0.3, 0.4, 0.1))
    y, sums = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)

    def function(g: Any, q: Any, k: Any, v: Any, y: Any, s: Any) -> Any:
        return backward(g, q, k, v, y, s, 0.0, False)

    inputs = (grad, q, k, v, y, sums)
    assert types_of(traced(function, *inputs)) == "FlashAttentionScoreGrad OnesLike"
    check_values(function, *inputs)


def test_an_operator_of_the_host_is_named_where_no_host_is() -> None:
    built_graph = built(traced(lambda x: torch.erfinv(x), X)).graph
    normalise(built_graph.proto)
    (op,) = [op for op in built_graph.op if op.type == "Erfinv"]
    (part,) = [part for part in op.attr[PARTS].g.op if OPERATOR in part.attr]
    assert part.attr[OPERATOR].s == b"aten.erfinv"
