# SPDX-License-Identifier: Apache-2.0
"""Corrects the fake tensors that AOTAutograd computes: their strides (``true_strides.py``), and results that torch has
for fixed sizes only. AOTAutograd takes sizes and strides of results and of gradients from them, and some in a run of
which it keeps no graph, so a graph that is corrected afterwards would not do."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch._functorch._aot_autograd import graph_capture_wrappers
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

from npugraph.fx.true_strides import (
    CORRECTED,
    GRADIENTS_IN_ROWS,
    GRADIENTS_OF_IMAGES,
    as_written,
    with_true_strides,
)

aten = torch.ops.aten


def _of_image(grad: torch.Tensor, sizes_of_result: Any, sizes: Sequence[Any], *_: Any) -> torch.Tensor:
    return grad.new_empty(sizes)


def _of_scores(grad: torch.Tensor, scores: torch.Tensor, *_: Any) -> torch.Tensor:
    return scores.new_empty(scores.shape)


def _of_elements(grad: torch.Tensor, x: torch.Tensor, *_: Any) -> torch.Tensor:
    return grad + x


# The operators of which torch has no fake results for symbolic sizes, and what makes them.
_WITHOUT_SYMBOLS: dict[Any, Callable[..., torch.Tensor]] = {
    **{packet.default: _of_image for packet in GRADIENTS_IN_ROWS + GRADIENTS_OF_IMAGES},
    aten.hardshrink_backward.default: _of_elements,
    aten.softshrink_backward.default: _of_elements,
    aten.multi_margin_loss_backward.default: _of_scores,
    aten.multilabel_margin_loss_backward.default: _of_scores,
}


class _Write(NamedTuple):
    """A call that writes. AOTAutograd calls the operator ``form`` for the new values of ``out``; without ``out``, for
    those of the first argument."""

    form: str
    out: tuple[Any, ...] = ()


_one_at_a_time = threading.RLock()  # true_fake_results() replaces methods of classes
_writing: _Write | None = None  # the call that is under way, which asks for new values of tensors


@contextlib.contextmanager
def true_fake_results() -> Iterator[None]:
    """Context manager: fake results have the strides of real ones. Other threads wait for it to end."""
    dispatch, call = FakeTensorMode.dispatch, FunctionalTensorMode.__torch_dispatch__
    fresh_input = graph_capture_wrappers.maybe_to_fresh_input

    def corrected(self: FakeTensorMode, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        make = _WITHOUT_SYMBOLS.get(func)
        result = make(*args) if make is not None else dispatch(self, func, types, args, kwargs)
        is_write = _is_functional_form(func)
        if not is_write and func not in CORRECTED:
            return result
        with disable_proxy_modes_tracing():  # strides are no part of a trace
            return _written(result, args) if is_write else with_true_strides(func, args, result)

    def noting_writes(self: FunctionalTensorMode, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with _noted(_writing if _is_functional_form(func) else _write_of(func, kwargs)):
            return call(self, func, types, args, kwargs)

    def copied_as_it_lies(*args: Any) -> Any:
        """AOTAutograd writes a copy in place of an input that has gradients."""
        with _noted(_Write("aten::clone")):
            return fresh_input(*args)

    with (
        _one_at_a_time,
        mock.patch.object(FakeTensorMode, "dispatch", corrected),
        mock.patch.object(FunctionalTensorMode, "__torch_dispatch__", noting_writes),
        mock.patch.object(graph_capture_wrappers, "maybe_to_fresh_input", copied_as_it_lies),
    ):
        yield


@contextlib.contextmanager
def _noted(write: _Write | None) -> Iterator[None]:
    global _writing
    before, _writing = _writing, write
    try:
        yield
    finally:
        _writing = before


def _is_functional_form(func: Any) -> bool:
    if _writing is None or not isinstance(func, torch._ops.OpOverload):
        return False
    return func._schema.name.removesuffix("_functional") == _writing.form


def _written(result: Any, args: Sequence[Any]) -> Any:
    """The new values that the call under way asks for."""
    outs = _writing.out or args[:1]
    if not isinstance(result, tuple):
        return as_written(result, outs[0])
    return tuple(as_written(each, out) for each, out in zip_longest(result, outs))


def _write_of(func: Any, kwargs: Mapping[str, Any] | None) -> _Write | None:
    names = _outs(func)
    if names:
        return _Write(func._schema.name, tuple((kwargs or {}).get(name) for name in names))
    form = _written_form(func)
    return None if form is None else _Write(form)


@functools.cache
def _outs(func: Any) -> tuple[str, ...]:
    """The names of the arguments that get the results, as ``out``."""
    if not isinstance(func, torch._ops.OpOverload):
        return ()
    return tuple(argument.name for argument in func._schema.arguments if argument.is_out)


@functools.cache
def _written_form(func: Any) -> str | None:
    """The name of the functional form of an operator that writes its first argument, as ``aten::relu`` of ``relu_``."""
    if not isinstance(func, torch._ops.OpOverload) or torch.Tag.inplace_view in func.tags:
        return None
    name = func._schema.name
    return name.removesuffix("_") if name.endswith("_") and func._schema.is_mutable else None
