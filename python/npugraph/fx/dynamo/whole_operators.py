# SPDX-License-Identifier: Apache-2.0
"""Keeps operators whole that torch would decompose while it traces a graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._C import DispatchKey
from torch.fx.experimental.symbolic_shapes import guard_or_false

aten = torch.ops.aten


def _enlarged(whole: torch._ops.OpOverload, always: bool = False) -> Callable[..., torch.Tensor]:
    """The rule of the overload ``vec`` of ``whole``. Unless ``always``, only what is differentiated stays whole, so
    that its gradient is the operator that eager calls. Images without elements are decomposed: the whole operators
    have no fake results for them."""
    decomposed = whole.overloadpacket.vec.py_kernels[DispatchKey.Autograd]

    def rule(x: torch.Tensor, size: Sequence[Any] | None, *rest: Any) -> torch.Tensor:
        from torch._decomp.decompositions import upsample_compute_output_size

        is_whole = always or (torch.is_grad_enabled() and x.requires_grad)
        if not is_whole or guard_or_false(x.numel() == 0):
            return decomposed(x, size, *rest)
        *flags, factors = rest
        return whole(x, upsample_compute_output_size(x.size(), size, factors), *flags, *(factors or ()))

    return rule


def _dropout() -> Callable[..., torch.Tensor]:
    """The rule of ``dropout``: what drops nothing returns its argument, as in eager. torch makes a copy of it."""
    decomposed = aten.dropout.default.py_kernels[DispatchKey.Autograd]

    def rule(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
        return x if not train or p == 0 or guard_or_false(x.numel() == 0) else decomposed(x, p, train)

    return rule


_DIFFERENTIATED_WHOLE = (
    aten.upsample_nearest1d.default,
    aten.upsample_nearest3d.default,
    aten._upsample_nearest_exact1d.default,
    aten._upsample_nearest_exact2d.default,
    aten._upsample_nearest_exact3d.default,
    aten.upsample_linear1d.default,
    aten.upsample_bilinear2d.default,
    aten.upsample_trilinear3d.default,
    aten.upsample_bicubic2d.default,
)

# The decompositions that hold while we trace. None: the operator is not decomposed.
_RULES: dict[torch._ops.OpOverload, Callable[..., Any] | None] = {
    aten.upsample_nearest2d.default: None,
    aten.upsample_nearest2d.vec: _enlarged(aten.upsample_nearest2d.default, always=True),
    # Parts of them round what the operators do not round, or round it at other places.
    aten.hardshrink.default: None,
    aten.softshrink.default: None,
    # Without a batch, parts of them give a row of one loss instead of a number. Those of the second take the -1 that
    # ends the targets of a row for one of them.
    aten.multi_margin_loss.default: None,
    aten.multilabel_margin_loss_forward.default: None,
    aten.dropout.default: _dropout(),
    **dict.fromkeys(_DIFFERENTIATED_WHOLE),
    **{whole.overloadpacket.vec: _enlarged(whole) for whole in _DIFFERENTIATED_WHOLE},
}
_KEYS = (DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd)
# Operators of Ascend have kernels for the last two, which come before the first one.
_KEYS_OF_ASCEND = (
    DispatchKey.CompositeImplicitAutograd,
    DispatchKey.AutogradCPU,
    DispatchKey.AutogradPrivateUse1,
)


@contextlib.contextmanager
def kept_whole(of_ascend: Mapping[torch._ops.OpOverload, Callable[..., Any]]) -> Iterator[None]:
    """Makes tracing follow ``_RULES`` inside the ``with``, and call the functions ``of_ascend`` for these operators of
    Ascend."""
    with _decomposed(_RULES, _KEYS), _decomposed(of_ascend, _KEYS_OF_ASCEND):
        yield


@contextlib.contextmanager
def _decomposed(
    rules: Mapping[torch._ops.OpOverload, Callable[..., Any] | None], keys: Sequence[DispatchKey]
) -> Iterator[None]:
    before = {op: {key: op.py_kernels[key] for key in keys if key in op.py_kernels} for op in rules}
    for op, rule in rules.items():
        _set(op, keys, dict.fromkeys(keys, rule) if rule is not None else {})
    try:
        yield
    finally:
        for op, kernels in before.items():
            _set(op, keys, kernels)


def _set(op: torch._ops.OpOverload, keys: Sequence[DispatchKey], kernels: Mapping[DispatchKey, Any]) -> None:
    for key in keys:
        op.py_kernels.pop(key, None)
    op.py_kernels.update(kernels)
    op._dispatch_cache.clear()
