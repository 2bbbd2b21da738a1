# SPDX-License-Identifier: Apache-2.0
"""The strides of results whose fake tensors have others than the real ones.

The recorder asks ``with_true_strides`` for each call, and ``as_written`` for each write, whose functional form would
give a new tensor other strides:

    y.masked_fill_(mask, 0)    # y has strides (1, 3), a new result of masked_fill() would have (4, 1)

AOTAutograd computes fake tensors itself, and gets the same from ``true_fakes.py``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import _prims_common
from torch.utils._mode_utils import no_dispatch

from npugraph.fx.values import expressions, overlaps

aten = torch.ops.aten


def with_true_strides(func: Any, args: Sequence[Any], result: Any) -> Any:
    """Returns the fake ``result`` of a call, or one like it with the strides that the real result has."""
    if func not in _STRIDES:
        return result
    if isinstance(result, torch.Tensor):
        return _with_strides(result, _STRIDES[func](result, *args))
    of_others = _STRIDES[func] if func in _ALIKE else _dense
    first, *others = result
    corrected = (
        first if first is None else _with_strides(first, _STRIDES[func](first, *args)),
        *(other if other is None else _with_strides(other, of_others(other, *args)) for other in others),
    )
    return result if all(map(operator.is_, corrected, result)) else corrected


def as_written(result: Any, written: Any) -> Any:
    """Returns the fake new values of a tensor that is written, with its strides. They have gaps where it has:
    ``close_gaps`` gives back the room that nobody asks for."""
    if not isinstance(result, torch.Tensor) or not isinstance(written, torch.Tensor):
        return result
    if expressions(result.shape) != expressions(written.shape) or overlaps(written):
        return result
    return _with_strides(result, written.stride())


def _with_strides(value: torch.Tensor, strides: Sequence[Any] | None) -> torch.Tensor:
    # To compare symbolic numbers would make guards.
    if strides is None or expressions(strides) == expressions(value.stride()):
        return value
    return value.new_empty_strided(value.shape[: len(strides)], strides)


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


def _strides_of_norm(result: torch.Tensor, value: torch.Tensor, *_: Any) -> Sequence[Any]:
    """A format in which the argument of a batch norm is contiguous decides before the one that its strides suggest.
    They differ where sizes are 1: a [1, 4, 2, 1] tensor with strides (4, 1, 4, 1) suggests rows, and is channels-last.
    """
    if _prims_common.is_contiguous_or_false(value):
        return _dense(result)
    if _prims_common.is_channels_last_contiguous_or_false(value):
        return _prims_common.make_channels_last_strides_for(result.shape)
    return _format_of(0)(result, value)


def _strides_of_norm_gradient(
    result: torch.Tensor, gradient: torch.Tensor, value: torch.Tensor, *_: Any
) -> Sequence[Any]:
    """As those of the batch norm if both arguments are contiguous and suggest the same format."""
    suggested = {_prims_common.suggest_memory_format(t) for t in (gradient, value)}
    if len(suggested) == 1 and _is_contiguous(gradient) and _is_contiguous(value):
        return _strides_of_norm(result, value)
    return _format_of(0)(result, value)


def _is_contiguous(t: torch.Tensor) -> bool:
    return _prims_common.is_contiguous_or_false(t) or _prims_common.is_channels_last_contiguous_or_false(t)


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
GRADIENTS_IN_ROWS = (
    aten._upsample_nearest_exact1d_backward,
    aten._upsample_nearest_exact3d_backward,
    aten.upsample_bicubic2d_backward,
    aten.upsample_linear1d_backward,
    aten.upsample_nearest1d_backward,
    aten.upsample_nearest3d_backward,
)
GRADIENTS_OF_IMAGES = (aten.upsample_bilinear2d_backward, aten.upsample_trilinear3d_backward)


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
            aten._standard_gamma.default,
            aten._upsample_nearest_exact1d.default,
            aten.huber_loss_backward.default,
            aten.isin.Tensor_Scalar,
            aten.isin.Tensor_Tensor,
            aten.log_sigmoid_forward.default,
            aten.native_layer_norm_backward.default,
            aten.normal.Tensor_Tensor,
            aten.normal.float_Tensor,
            aten.poisson.default,
            aten.pow.Scalar,
            aten.rrelu_with_noise.default,
            aten.rrelu_with_noise_functional.default,
            aten.upsample_nearest1d.default,
            *(packet.default for packet in GRADIENTS_IN_ROWS),
        ),
        _dense,
    ),
    **dict.fromkeys((packet.default for packet in GRADIENTS_OF_IMAGES), _format_of(0)),
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
    aten.native_dropout.default: _like(0),
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
            aten.native_batch_norm.default,
        ),
        _strides_of_norm,
    ),
    aten.channel_shuffle.default: _format_of(0),
    aten.native_group_norm.default: _format_of(0),
    aten.max_unpool2d.default: _format_of(0),
    aten.batch_norm_backward.default: _strides_of_norm_gradient,
    aten.native_batch_norm_backward.default: _strides_of_norm_gradient,
    **dict.fromkeys(
        (
            aten.native_group_norm_backward.default,
            aten.replication_pad2d_backward.default,
        ),
        _format_of(1),
    ),
}
_ALIKE = {aten.native_dropout.default}  # all results have the strides of the first; elsewhere others are row-major
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
