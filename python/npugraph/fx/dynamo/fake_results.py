# SPDX-License-Identifier: Apache-2.0
"""A cache of the fake results of operators, keyed by what operators ask of their arguments. It hits often, because the
layers of a model repeat each other.

torch has such a cache, too. That one serves a whole process and all kinds of tensors, so its keys have to hold more.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

from npugraph.fx.dynamo.symbol_nodes import Symbolic
from npugraph.fx.schema import is_view

_OF_DATA = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view}


class _UnknownError(Exception):
    """An argument that a key cannot describe: results may depend on more than its look."""


@dataclass(frozen=True)
class _Look:
    """The layout, type and device of a tensor: all that operators ask of a fake tensor."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool


class FakeResults:
    """The cache of one recording. It keeps the tensors of the recording alive."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._looks: dict[_Look, int] = {}  # each with its number in keys
        self._look_of: dict[int, tuple[torch.Tensor, int | None]] = {}  # by id: tensor, number of its look
        self._results: dict[Hashable, _Look] = {}

    def of(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Returns ``func(*args, **kwargs)``, a new tensor at each call. ``func`` must be functional, or a view of its
        first argument."""
        if not _depends_on_looks(func):
            return func(*args, **kwargs)
        try:
            key = (func, torch.is_grad_enabled(), torch.is_inference_mode_enabled(), self._key(args))
            if kwargs:
                key += (tuple(kwargs), self._key(kwargs.values()))
        except _UnknownError:
            return func(*args, **kwargs)
        look = self._results.get(key)
        if look is not None:
            return self._make(look, args[0] if is_view(func) else None)
        result = func(*args, **kwargs)
        if isinstance(result, FakeTensor) and not result.requires_grad:
            look = _look(result)
            shares = is_view(func) and result.untyped_storage()._cdata == args[0].untyped_storage()._cdata
            if look is not None and shares == is_view(func):
                self._results[key] = look
        return result

    def _key(self, values: Any) -> Hashable:
        return tuple([self._key_of(value) for value in values])

    def _key_of(self, value: Any) -> Hashable:
        if isinstance(value, torch.Tensor):
            return self._number(value)
        if isinstance(value, (list, tuple)):
            return (type(value), self._key(value))
        if isinstance(value, Symbolic):
            raise _UnknownError
        return (type(value), value)  # the type, because 1, 1.0 and True are equal

    def _number(self, tensor: torch.Tensor) -> int:
        if id(tensor) not in self._look_of:
            self._remember(tensor, _look(tensor))
        number = self._look_of[id(tensor)][1]
        if number is None:
            raise _UnknownError
        return number

    def _remember(self, tensor: torch.Tensor, look: _Look | None) -> None:
        number = None if look is None else self._looks.setdefault(look, len(self._looks))
        self._look_of[id(tensor)] = tensor, number

    def _make(self, look: _Look, base: torch.Tensor | None) -> torch.Tensor:
        with in_kernel_invocation_manager(self._mode):
            meta = torch.empty_strided(look.shape, look.stride, dtype=look.dtype, device="meta")
            if base is not None:
                meta.set_(base.untyped_storage(), look.offset, look.shape, look.stride)
        result = FakeTensor(self._mode, meta, look.device)
        self._remember(result, look)
        return result


def _look(tensor: torch.Tensor) -> _Look | None:
    """The look of a tensor. None if the look does not describe it completely, or if a size is symbolic."""
    if type(tensor) is not FakeTensor or tensor.constant is not None or tensor.layout is not torch.strided:
        return None
    if tensor.is_conj() or tensor.is_neg():
        return None
    shape, stride, offset = tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()
    if any(isinstance(number, Symbolic) for number in (*shape, *stride, offset)):
        return None
    return _Look(shape, stride, offset, tensor.dtype, tensor.device, tensor.requires_grad)


@functools.cache
def _depends_on_looks(func: Any) -> bool:
    shares_unseen = func in (torch.ops.aten._unsafe_view.default, torch.ops.aten.lift.default)
    return func.namespace in ("aten", "prims") and not _OF_DATA.intersection(func.tags) and not shares_unseen
