# SPDX-License-Identifier: Apache-2.0
"""The strides of results whose fake tensors have others than the real ones.

The recorder asks ``with_true_strides`` for each call, and ``as_written`` for each write, whose functional form would
give a new tensor other strides:

    y.masked_fill_(mask, 0)    # y has strides (1, 3), a new result of masked_fill() would have (4, 1)

AOTAutograd computes fake tensors itself. In ``true_fake_results`` it gets the same.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import _prims_common, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.utils._mode_utils import no_dispatch

aten = torch.ops.aten


def with_true_strides(func: Any, args: Sequence[Any], result: Any) -> Any:
    """Returns the fake ``result`` of a call, or one like it with the strides that the real result has."""
    if func not in _STRIDES:
        return result
    if isinstance(result, torch.Tensor):
        return _with_strides(result, _STRIDES[func](result, *args))
    first, *others = result
    corrected = (
        first if first is None else _with_strides(first, _STRIDES[func](first, *args)),
        *(other if other is None else _with_strides(other, _dense(other)) for other in others),
    )
    return result if all(map(operator.is_, corrected, result)) else corrected


def as_written(result: Any, written: Any, keeps_gaps: bool = False) -> Any:
    """Returns the fake new values of a tensor that is written and is no view, with its strides. (A view is made again
    from its base, into which the values go.) If it has gaps, only with ``keeps_gaps``: the values take its room."""
    if not isinstance(result, torch.Tensor) or not isinstance(written, torch.Tensor) or result.shape != written.shape:
        return result
    return _with_strides(result, written.stride()) if keeps_gaps or _is_whole(written) else result


_is_whole = _prims_common.is_non_overlapping_and_dense_or_false


def returns_parts_of_inputs(gm: fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether sizes are symbolic and a result of Dynamo's graph may be a view of an input that has gaps. If the input
    is written, AOTAutograd takes the strides of that result from the new values."""
    taken = zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=True)
    values = [node.meta.get("example_value", given) for node, given in taken]
    tensors = [value for value in values if isinstance(value, torch.Tensor) and value.layout is torch.strided]
    if not any(isinstance(number, torch.SymInt) for value in tensors for number in (*value.shape, *value.stride())):
        return False
    known = {value.untyped_storage()._cdata for value in tensors if not _is_whole(value)}
    results = [node.meta.get("example_value") for node in gm.graph.output_node().all_input_nodes]
    return bool(known) and any(
        value.untyped_storage()._cdata in known
        if isinstance(value, torch.Tensor) and value.layout is torch.strided
        else value is None
        for value in results
    )


def _with_strides(value: torch.Tensor, strides: Sequence[Any] | None) -> torch.Tensor:
    if strides is None or tuple(strides) == value.stride():
        return value
    return value.new_empty_strided(value.shape[: len(strides)], strides)


_one_at_a_time = threading.RLock()  # true_fake_results() replaces methods of classes
_writing: str | None = None  # the operator whose functional form is to be called, for its first argument


@contextlib.contextmanager
def true_fake_results(keeps_gaps: bool) -> Iterator[None]:
    """Context manager: fake results have the strides of real ones. Other threads wait for it to end. ``keeps_gaps`` is
    for ``as_written``."""
    dispatch, call = FakeTensorMode.dispatch, FunctionalTensorMode.__torch_dispatch__

    def corrected(self: FakeTensorMode, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        make = _WITHOUT_SYMBOLS.get(func)
        result = make(*args) if make is not None else dispatch(self, func, types, args, kwargs)
        is_write = _is_functional_form(func)
        if not is_write and func not in _STRIDES:
            return result
        with disable_proxy_modes_tracing():  # strides are no part of a trace
            return as_written(result, args[0], keeps_gaps) if is_write else with_true_strides(func, args, result)

    def noting_writes(self: FunctionalTensorMode, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        form = _written_form(func)
        with _noted(form if form is not None and _is_base(args[0]) else None):
            return call(self, func, types, args, kwargs)

    with (
        _one_at_a_time,
        mock.patch.object(FakeTensorMode, "dispatch", corrected),
        mock.patch.object(FunctionalTensorMode, "__torch_dispatch__", noting_writes),
    ):
        yield


@contextlib.contextmanager
def _noted(form: str | None) -> Iterator[None]:
    global _writing
    before, _writing = _writing, form
    try:
        yield
    finally:
        _writing = before


def _is_base(value: Any) -> bool:
    return isinstance(value, FunctionalTensor) and torch._is_functional_tensor_base(value.elem)


def _is_functional_form(func: Any) -> bool:
    return _writing is not None and isinstance(func, torch._ops.OpOverload) and func._schema.name == _writing


@functools.cache
def _written_form(func: Any) -> str | None:
    """The name of the functional form of an operator that writes its first argument, as ``aten::relu`` of ``relu_``."""
    if not isinstance(func, torch._ops.OpOverload) or torch.Tag.inplace_view in func.tags:
        return None
    name = func._schema.name
    return name.removesuffix("_") if name.endswith("_") and func._schema.is_mutable else None


def _dense(result: torch.Tensor, *_: Any) -> Sequence[Any]:
    return _prims_common.make_contiguous_strides_for(result.shape)


def _elementwise(result: torch.Tensor, *args: Any) -> Sequence[Any]:
    """TensorIterator orders the dimensions by all operands."""
    operands = [arg.expand(result.shape) for arg in args if isinstance(arg, torch.Tensor) and arg.dim() > 0]
    return _prims_common.compute_elementwise_output_strides(*operands) if operands else result.stride()


def _elementwise_of_expanded(result: torch.Tensor, *args: Any) -> Sequence[Any] | None:
    """Fake operands of 16 bits become float32 first, so that expanded ones take part in the order of dimensions."""
    if result.dtype not in (torch.bfloat16, torch.float16) or result.dim() < 2:
        return None
    operands = [arg for arg in args if isinstance(arg, torch.Tensor)]
    is_expanded = any(type(stride) is int and stride == 0 for operand in operands for stride in operand.stride())
    return _elementwise(result, *operands) if is_expanded else None


def _like(position: int) -> Callable[..., Sequence[Any] | None]:
    def strides(result: torch.Tensor, *args: Any) -> Sequence[Any] | None:
        # The sum or mean of a loss is a single number.
        return torch.empty_like(args[position]).stride() if result.dim() == args[position].dim() else None

    return strides


def _format_of(position: int) -> Callable[..., Sequence[Any]]:
    """The result is in the memory format that the argument at ``position`` suggests."""

    def strides(result: torch.Tensor, *args: Any) -> Sequence[Any]:
        form = _prims_common.suggest_memory_format(args[position])
        if form is torch.contiguous_format:
            return _dense(result)
        return _prims_common.make_channels_last_strides_for(result.shape)

    return strides


def _strides_of_addr(
    result: torch.Tensor, value: torch.Tensor, column: torch.Tensor, row: torch.Tensor
) -> Sequence[Any]:
    return _elementwise(result, value, column[:, None], row)


def _strides_of_angle(result: torch.Tensor, value: torch.Tensor) -> Sequence[Any] | None:
    return _dense(result) if value.is_complex() else None


def _strides_of_margins(result: torch.Tensor, value: torch.Tensor, *_: Any) -> Sequence[Any] | None:
    """Without a batch, the loss is a number. Its fake result has a dimension of size 1."""
    return () if value.dim() < 2 else None


def _strides_of_roll(
    result: torch.Tensor, value: torch.Tensor, shifts: Sequence[Any], dims: Sequence[int] = ()
) -> Sequence[Any] | None:
    """On the CPU, ``roll`` is made of concatenations, so its result has their strides."""
    if not dims or value.dim() < 4 or value.is_contiguous() or value.numel() == 0:
        return None
    for shift, dim in zip(shifts, dims, strict=True):
        size = value.size(dim)
        start = (size - shift) % size
        value = torch.cat([value.narrow(dim, start, size - start), value.narrow(dim, 0, start)], dim)
    return value.stride()


def _strides_of_index(
    result: torch.Tensor, value: torch.Tensor, indices: Sequence[torch.Tensor | None]
) -> Sequence[Any] | None:
    """The strides of ``index`` depend on those of its indices, too: TensorIterator orders the dimensions by all
    operands."""
    positions = [i for i, index in enumerate(indices) if index is not None]
    masks = (torch.bool, torch.uint8)  # a mask stands for as many indices as it has dimensions
    if not positions or any(indices[i].dtype in masks for i in positions):
        return None
    given = torch.broadcast_tensors(*(indices[i] for i in positions))
    before = positions[0]
    if positions[-1] - before + 1 != len(positions):
        value, before = value.movedim(positions, list(range(len(positions)))), 0
    behind = before + len(positions)
    strides = [*value.stride()[:before], *[0] * given[0].dim(), *value.stride()[behind:]]
    operands = [value.as_strided(result.shape, strides)]
    operands += [_between_ones(index, before, value.dim() - behind).expand(result.shape) for index in given]
    order, _ = _prims_common.compute_elementwise_output_logical_to_physical_perm(*operands)
    dense = _prims_common.make_contiguous_strides_for(_prims_common.apply_perm(result.shape, order))
    return _prims_common.apply_perm(dense, _prims_common.invert_perm(order))


# Gradients of enlarged images: row-major ones, and those in the memory format of the gradient of the result.
_GRADIENTS_IN_ROWS = (
    aten._upsample_nearest_exact1d_backward,
    aten._upsample_nearest_exact3d_backward,
    aten.upsample_bicubic2d_backward,
    aten.upsample_linear1d_backward,
    aten.upsample_nearest1d_backward,
    aten.upsample_nearest3d_backward,
)
_GRADIENTS_OF_IMAGES = (aten.upsample_bilinear2d_backward, aten.upsample_trilinear3d_backward)
_GRADIENTS_OF_MARGINS = (aten.multi_margin_loss_backward, aten.multilabel_margin_loss_backward)


def _of_image(grad: torch.Tensor, sizes_of_result: Any, sizes: Sequence[Any], *_: Any) -> torch.Tensor:
    return grad.new_empty(sizes)


def _of_scores(grad: torch.Tensor, scores: torch.Tensor, *_: Any) -> torch.Tensor:
    return scores.new_empty(scores.shape)


# The operators of which torch has no fake results for symbolic sizes, and what makes them.
_WITHOUT_SYMBOLS: dict[Any, Callable[..., torch.Tensor]] = {
    **{packet.default: _of_image for packet in _GRADIENTS_IN_ROWS + _GRADIENTS_OF_IMAGES},
    **{packet.default: _of_scores for packet in _GRADIENTS_OF_MARGINS},
}

_STRIDES: dict[Any, Callable[..., Sequence[Any] | None]] = {
    aten.index.Tensor: _strides_of_index,
    aten.roll.default: _strides_of_roll,
    aten.addr.default: _strides_of_addr,
    aten.angle.default: _strides_of_angle,
    aten.multi_margin_loss.default: _strides_of_margins,
    aten.multilabel_margin_loss_forward.default: _strides_of_margins,
    **dict.fromkeys(
        (
            aten._log_softmax_backward_data.default,
            aten._upsample_nearest_exact1d.default,
            aten.huber_loss_backward.default,
            aten.isin.Tensor_Scalar,
            aten.isin.Tensor_Tensor,
            aten.log_sigmoid_forward.default,
            aten.native_layer_norm_backward.default,
            aten.normal.Tensor_Tensor,
            aten.pow.Scalar,
            aten.upsample_nearest1d.default,
            *(packet.default for packet in _GRADIENTS_IN_ROWS),
        ),
        _dense,
    ),
    **dict.fromkeys((packet.default for packet in _GRADIENTS_OF_IMAGES), _format_of(0)),
    **dict.fromkeys(
        (
            aten.copysign.Tensor,
            aten.div.Tensor_mode,
            aten.floor_divide.default,
            aten.hardswish_backward.default,
            aten.hardtanh_backward.default,
            aten.heaviside.default,
            aten.logaddexp.default,
            aten.logit_backward.default,
            aten.native_dropout_backward.default,
        ),
        _elementwise,
    ),
    **dict.fromkeys(
        (
            aten.add.Tensor,
            aten.div.Tensor,
            aten.maximum.default,
            aten.minimum.default,
            aten.mul.Tensor,
            aten.sigmoid_backward.default,
            aten.sub.Tensor,
            aten.tanh_backward.default,
        ),
        _elementwise_of_expanded,
    ),
    aten.binary_cross_entropy.default: _like(0),
    aten.binary_cross_entropy_backward.default: _like(1),
    **dict.fromkeys(
        (
            aten._batch_norm_no_update.default,
            aten._batch_norm_with_update.default,
            aten._batch_norm_with_update_functional.default,
            aten._native_batch_norm_legit.default,
            aten._native_batch_norm_legit.no_stats,
            aten._native_batch_norm_legit_functional.default,
            aten._native_batch_norm_legit_no_training.default,
            aten.channel_shuffle.default,
            aten.max_unpool2d.default,
            aten.native_batch_norm.default,
        ),
        _format_of(0),
    ),
    **dict.fromkeys(
        (
            aten.batch_norm_backward.default,
            aten.native_batch_norm_backward.default,
            aten.native_group_norm_backward.default,
            aten.replication_pad2d_backward.default,
        ),
        _format_of(1),
    ),
}
CORRECTED = frozenset(_STRIDES)  # the operators of which with_true_strides() knows something


def _between_ones(index: torch.Tensor, before: int, after: int) -> torch.Tensor:
    """A view of ``index`` with dimensions of size 1 before and after its own. Their strides count where ``index``
    orders dimensions. Fake views have other strides there, so a real view says them unless sizes are symbolic."""
    sizes = [1] * before + [*index.shape] + [1] * after
    if any(isinstance(number, torch.SymInt) for number in (*sizes, *index.stride())):
        return index.reshape(sizes)
    with no_dispatch():
        strides = torch.empty_strided(index.shape, index.stride(), device="meta").reshape(sizes).stride()
    return index.as_strided(sizes, strides)
