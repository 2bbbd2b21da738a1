# SPDX-License-Identifier: Apache-2.0
"""Converters of matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.builders import ge_op
from npugraph.ge.converters import part_functions
from npugraph.ge.converters.computations import computed_by
from npugraph.ge.converters.creation import on_diagonal
from npugraph.ge.converters.registry import add, register_fx_node_ge_converter
from npugraph.ge.converters.values import (
    cast,
    exactly,
    images,
    integers,
    known,
    operand,
    plus,
    shape_of,
    size_at,
    times,
    typed,
)
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.addmm.default)
def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, meta_outputs: Any) -> Tensor:
    beta, alpha = known("beta", beta), known("alpha", alpha)
    if beta == 1 and alpha == 1:
        return ge.MatMulV2(mat1, mat2, self)
    product = typed(ge.MatMulV2(mat1, mat2), meta_outputs.dtype, meta_outputs.size)
    return _scaled(self, product, beta, alpha, meta_outputs)


@register_fx_node_ge_converter(aten.baddbmm.default)
def baddbmm(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, meta_outputs: Any
) -> Tensor:
    product = typed(ge.BatchMatMul(batch1, batch2), meta_outputs.dtype, meta_outputs.size)
    return _scaled(self, product, known("beta", beta), known("alpha", alpha), meta_outputs)


def _scaled(x: Tensor, product: Tensor, beta: Any, alpha: Any, spec: Any) -> Tensor:
    """beta * x + alpha * product; with beta 0, ``x`` may be anything."""
    if beta == 0:
        return product if alpha == 1 else exactly(ge.Mul, spec.dtype, product, alpha)
    summand = x if beta == 1 else typed(exactly(ge.Mul, spec.dtype, x, beta), spec.dtype, x.symsize or ())
    if alpha == 1:
        return ge.Add(cast(summand, spec.dtype), product)
    return exactly(ge.AxpyV2, spec.dtype, summand, product, alpha)


@register_fx_node_ge_converter(aten.matmul.default)
def matmul(self: Tensor, other: Tensor, *, meta_outputs: Any) -> Tensor:
    if self.rank < 2 or other.rank < 2:
        raise NotImplementedError("an operand is a vector")
    return ge.MatMul(self, other) if self.rank == other.rank == 2 else ge.BatchMatMul(self, other)


def grouped_mm(
    self: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Any = None,
    out_dtype: Any = None,
    *,
    meta_outputs: Any,
) -> Tensor:
    """Rows of one tensor in groups, each of which has a matrix, or columns of one tensor and rows of another one in
    groups. ``offs`` has the ends of the groups."""
    ranks = (self.rank, mat2.rank)
    if offs is None or ranks not in ((2, 3), (2, 2)) or bias is not None or meta_outputs.dtype != self.dtype:
        raise NotImplementedError("only groups of rows are converted, without bias and in the type of the rows")
    if ranks == (2, 3):
        return _grouped_product(self, mat2, cast(offs, DataType.DT_INT64), 0)
    return computed_by(_grouped_product(self, mat2, offs, 2), aten._grouped_mm.default, self, mat2, offs)


def _grouped_product(a: Tensor, b: Tensor, ends: Tensor, group_type: int) -> Tensor:
    """``group_type`` says which dimension the groups divide: 0 the rows of ``a``, 2 its columns."""
    (result,) = ge.GroupedMatmul([a], [b], *[[]] * 5, ends, split_item=3, group_type=group_type, size_of_y=1)
    return result


def grouped_mm_backward(
    input: Tensor, weight: Tensor, offs: Tensor, grad_output: Tensor, *, meta_outputs: Any
) -> list[Tensor]:
    """That of the rows by the rows of their gradient and transposed matrices, that of a matrix by its group of rows."""
    sizes = weight.symsize or ()
    turned = typed(ge.Transpose(weight, [0, 2, 1]), weight.dtype, [sizes[0], sizes[2], sizes[1]])
    of_rows = _grouped_product(grad_output, turned, cast(offs, DataType.DT_INT64), 0)
    columns = typed(ge.Transpose(input, [1, 0]), input.dtype, list(reversed(input.symsize or ())))
    of_weight = _grouped_product(columns, grad_output, offs, 2)
    operator = torch.ops.transformers.grouped_mm_fallback_backward.default
    function = part_functions.grouped_filter_gradient
    return [of_rows, computed_by(of_weight, function, columns, offs, grad_output, calls=[operator])]


add("transformers.grouped_mm_fallback_backward.default", grouped_mm_backward)
for _target in ("aten._grouped_mm.default", "transformers.grouped_mm_fallback.default"):
    add(_target, grouped_mm)


@register_fx_node_ge_converter(aten.linalg_solve_triangular.default)
def linalg_solve_triangular(
    self: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, meta_outputs: Any
) -> Tensor:
    """Ascend has no word for a diagonal of ones that is not read: it is written."""
    if not left:
        raise NotImplementedError("its matrix is on the right")
    if unitriangular:
        diagonal = on_diagonal(size_at(self, self.rank - 2), size_at(self, self.rank - 1))
        self = typed(ge.SelectV2(diagonal, operand(1, self.dtype), self), self.dtype, self.symsize or ())
    result = ge.MatrixTriangularSolve(self, B, lower=not upper)
    calls = [aten.linalg_solve_triangular.default]
    return computed_by(result, part_functions.solve_triangular, self, B, upper, calls=calls)


class _Windows:
    """How the windows of a convolution lie over images, whose dimensions have one more in front if they have one."""

    def __init__(
        self, weight: Tensor, stride: Any, padding: Any, dilation: Any, transposed: bool, more: Any, groups: Any
    ) -> None:
        self.dims = weight.rank - 2
        if self.dims not in (1, 2, 3):
            raise NotImplementedError(f"its images have {self.dims} dimensions")
        self.all_dims = max(self.dims, 2)
        self.stride, self.padding = self._along("stride", stride, 1), self._along("padding", padding, 0)
        self.dilation, self.transposed = self._along("dilation", dilation, 1), transposed
        self.more, self.groups = self._along("output_padding", more, 0), known("groups", groups)

    def _along(self, what: str, numbers: Any, fill: int) -> list[int]:
        """One number stands for all dimensions; ``fill`` is for the height of images that have none."""
        every = list(known(what, numbers))
        every = every * self.dims if len(every) == 1 else every
        return [fill] * (self.all_dims - self.dims) + every

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Those of an operator of torch."""
        return self.stride, self.padding, self.dilation, self.transposed, self.more, self.groups

    @property
    def attributes(self) -> dict[str, Any]:
        return {
            "strides": [1, 1, *self.stride],
            "pads": [pad for pad in self.padding for _ in range(2)],
            "dilations": [1, 1, *self.dilation],
            "groups": self.groups,
            "data_format": self.data_format,
        }

    @property
    def data_format(self) -> str:
        return "NCDHW" if self.dims == 3 else "NCHW"

    @property
    def op_type(self) -> str:
        return f"Conv{self.all_dims}D"

    def with_height(self, x: Tensor) -> Tensor:
        if self.dims > 1:
            return x
        sizes = list(x.symsize or ())
        return typed(ge.Unsqueeze(x, axes=[2]), x.dtype, [*sizes[:2], 1, *sizes[2:]])

    def without_height(self, x: Tensor) -> Tensor:
        return ge.Squeeze(x, axis=[2]) if self.dims == 1 else x


@register_fx_node_ge_converter(aten.convolution.default)
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *,
    meta_outputs: Any,
) -> Tensor:
    windows = _Windows(weight, stride, padding, dilation, transposed, output_padding, groups)
    if input.rank != weight.rank:
        raise NotImplementedError("its input has no dimension of images")
    sizes = integers(_transposed_sizes(input, weight, windows)) if transposed else []
    x, filter_ = windows.with_height(input), windows.with_height(weight)
    if transposed:
        more = {"output_padding": [0, 0, *windows.more]}
        result = ge_op(f"{windows.op_type}Transpose", sizes, x, filter_, bias, **windows.attributes, **more)
    else:
        result = ge_op(windows.op_type, x, filter_, bias, **windows.attributes)
    images(result, inputs=(1, 2) if transposed else (0, 1), data_format=windows.data_format)
    if windows.dims == 3:
        computed_by(result, aten.convolution.default, x, filter_, bias, *windows.arguments)
    return windows.without_height(result)


def _transposed_sizes(x: Tensor, weight: Tensor, windows: _Windows) -> list[Any]:
    """Sizes of the result of a transposed convolution, whose images have at least height and width."""
    missing = windows.all_dims - windows.dims
    sizes = [size_at(x, 0), times(size_at(weight, 1), windows.groups), *[1] * missing]
    for dim in range(missing, windows.all_dims):
        step, gap, pad = windows.stride[dim], windows.dilation[dim], windows.padding[dim]
        kernel = size_at(weight, 2 + dim - missing)
        if not isinstance(kernel, int):
            raise NotImplementedError("the size of its kernel is known only when the graph runs")
        around = gap * (kernel - 1) + 1 - step - 2 * pad + windows.more[dim]
        sizes.append(plus(times(size_at(x, 2 + dim - missing), step), around))
    return sizes


@register_fx_node_ge_converter(aten.convolution_backward.default)
def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
    *,
    meta_outputs: Any,
) -> list[Tensor | None]:
    windows = _Windows(weight, stride, padding, dilation, transposed, output_padding, groups)
    if input.rank != weight.rank:
        raise NotImplementedError("its input has no dimension of images")
    grad, x, filter_ = map(windows.with_height, (grad_output, input, weight))
    of_bias = [dim for dim in range(input.rank) if dim != 1]
    return [
        windows.without_height(_input_gradient(grad, x, filter_, windows)) if output_mask[0] else None,
        windows.without_height(_filter_gradient(grad, x, filter_, windows)) if output_mask[1] else None,
        ge.ReduceSum(grad_output, of_bias) if output_mask[2] else None,
    ]


def _input_gradient(grad: Tensor, x: Tensor, filter_: Tensor, windows: _Windows) -> Tensor:
    """A convolution backwards. Backwards of a transposed convolution is a convolution."""
    if windows.transposed:
        result = ge_op(windows.op_type, grad, filter_, **windows.attributes)
        images(result, inputs=(0, 1), data_format=windows.data_format)
        if windows.dims == 3:
            how = (windows.stride, windows.padding, windows.dilation, False, [0] * 3, windows.groups)
            computed_by(result, aten.convolution.default, grad, filter_, None, *how)
        return result
    result = ge_op(f"{windows.op_type}BackpropInput", shape_of(x), filter_, grad, **windows.attributes)
    images(result, inputs=(1, 2), data_format=windows.data_format)
    given = (x, filter_, grad, windows.arguments)
    return computed_by(result, part_functions.convolution_input_gradient, *given, calls=_of_host(windows))


def _filter_gradient(grad: Tensor, x: Tensor, filter_: Tensor, windows: _Windows) -> Tensor:
    """Input and gradient change their places if the convolution is transposed."""
    read, written = (grad, x) if windows.transposed else (x, grad)
    result = ge_op(f"{windows.op_type}BackpropFilter", read, shape_of(filter_), written, **windows.attributes)
    images(result, inputs=(0, 2), data_format=windows.data_format)
    given = (x, filter_, grad, windows.arguments)
    return computed_by(result, part_functions.convolution_filter_gradient, *given, calls=_of_host(windows))


def _of_host(windows: _Windows) -> list[Any]:
    """The operators of gradients that the host computes. They can be a convolution, for which the engine has rules in
    fewer than three dimensions."""
    return [aten.convolution_backward.default, *([aten.convolution.default] if windows.dims == 3 else [])]
