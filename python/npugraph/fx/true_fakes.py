# SPDX-License-Identifier: Apache-2.0
"""Corrects the fake tensors that AOTAutograd computes: their strides (``true_strides.py``), and results that torch has
for fixed sizes only. AOTAutograd takes sizes and strides of results and of gradients from them, and some in a run of
which it keeps no graph, so a graph that is corrected afterwards would not do."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing
from torch.utils.weak import WeakTensorKeyDictionary

from npugraph.fx.output_strides import order_of
from npugraph.fx.true_strides import (
    CORRECTED,
    GRADIENTS_IN_ROWS,
    GRADIENTS_OF_IMAGES,
    as_written,
    with_true_strides,
)

aten = torch.ops.aten


def returns_parts_of_inputs(gm: fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether sizes are symbolic and a result of Dynamo's graph may be a view of an input that has gaps. If the input
    is written, AOTAutograd takes the strides of that result from the new values."""
    taken = zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=True)
    values = [node.meta.get("example_value", given) for node, given in taken]
    tensors = [value for value in values if isinstance(value, torch.Tensor) and value.layout is torch.strided]
    if not any(isinstance(number, torch.SymInt) for value in tensors for number in (*value.shape, *value.stride())):
        return False
    known = {value.untyped_storage()._cdata for value in tensors if order_of(value) is None}
    results = [node.meta.get("example_value") for node in gm.graph.output_node().all_input_nodes]
    return bool(known) and any(
        value.untyped_storage()._cdata in known
        if isinstance(value, torch.Tensor) and value.layout is torch.strided
        else value is None
        for value in results
    )


def _of_image(grad: torch.Tensor, sizes_of_result: Any, sizes: Sequence[Any], *_: Any) -> torch.Tensor:
    return grad.new_empty(sizes)


def _of_scores(grad: torch.Tensor, scores: torch.Tensor, *_: Any) -> torch.Tensor:
    return scores.new_empty(scores.shape)


# The operators of which torch has no fake results for symbolic sizes, and what makes them.
_WITHOUT_SYMBOLS: dict[Any, Callable[..., torch.Tensor]] = {
    **{packet.default: _of_image for packet in GRADIENTS_IN_ROWS + GRADIENTS_OF_IMAGES},
    aten.multi_margin_loss_backward.default: _of_scores,
    aten.multilabel_margin_loss_backward.default: _of_scores,
}

# The operators that make a tensor with gaps in memory of its own.
_MAKING_GAPS = {
    aten.as_strided_scatter.default,
    aten.diagonal_scatter.default,
    aten.empty_strided.default,
    aten.new_empty_strided.default,
    aten.select_scatter.default,
    aten.slice_scatter.default,
}

_one_at_a_time = threading.RLock()  # true_fake_results() replaces methods of classes
_writing: str | None = None  # the operator whose functional form is to be called, for its first argument


@contextlib.contextmanager
def true_fake_results(keeps_gaps: bool) -> Iterator[None]:
    """Context manager: fake results have the strides of real ones. Other threads wait for it to end. ``keeps_gaps`` is
    for ``as_written``, which keeps the gaps of tensors that were made with them in any case."""
    dispatch, call = FakeTensorMode.dispatch, FunctionalTensorMode.__torch_dispatch__
    made_with_gaps = WeakTensorKeyDictionary()

    def corrected(self: FakeTensorMode, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        make = _WITHOUT_SYMBOLS.get(func)
        result = make(*args) if make is not None else dispatch(self, func, types, args, kwargs)
        is_write = _is_functional_form(func)
        if not is_write and func not in CORRECTED and func not in _MAKING_GAPS:
            return result
        has_own_gaps = func in _MAKING_GAPS
        with disable_proxy_modes_tracing():  # strides are no part of a trace
            if is_write:
                has_own_gaps = isinstance(args[0], torch.Tensor) and args[0] in made_with_gaps
                result = as_written(result, args[0], keeps_gaps or has_own_gaps)
            else:
                result = with_true_strides(func, args, result)
            if has_own_gaps and order_of(result) is None:
                made_with_gaps[result] = True
        return result

    def noting_writes(self: FunctionalTensorMode, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with _noted(_written_form(func)):
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


def _is_functional_form(func: Any) -> bool:
    return _writing is not None and isinstance(func, torch._ops.OpOverload) and func._schema.name == _writing


@functools.cache
def _written_form(func: Any) -> str | None:
    """The name of the functional form of an operator that writes its first argument, as ``aten::relu`` of ``relu_``."""
    if not isinstance(func, torch._ops.OpOverload) or torch.Tag.inplace_view in func.tags:
        return None
    name = func._schema.name
    return name.removesuffix("_") if name.endswith("_") and func._schema.is_mutable else None
