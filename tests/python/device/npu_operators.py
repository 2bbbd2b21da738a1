# SPDX-License-Identifier: Apache-2.0
"""Checks that every operator of the npu namespaces must pass, given arguments and a reference that follows its
definition."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tests.python.device.captured_calls import check_captured
from tests.python.device.products_of_npu import ProductsOfNpu
from tests.python.device.tensors import tensors

# Relative and absolute tolerances of results in each dtype. Results in int8 and uint8 may differ by one, since a value
# may lie halfway between two integers.
TOLERANCES = {
    torch.float64: (1e-9, 1e-9),
    torch.float32: (2e-5, 2e-5),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1.6e-2),
    torch.float8_e4m3fn: (6.3e-2, 6.3e-2),
    torch.float8_e5m2: (1.25e-1, 1.25e-1),
}
# What was done with an operator in a test function. Its other calls there, which differ in sizes, types or modes, are
# compiled and made with symbols only if the variable ALL_CHECKS is set, as in `make long`.
_DONE: set[tuple[str, str, str]] = set()
FLOATING = (torch.float32, torch.float16, torch.bfloat16)


def normal(*size: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def integers(low: int, high: int, *size: int, dtype: torch.dtype = torch.int64, seed: int = 0) -> torch.Tensor:
    """Returns random integers in [low, high)."""
    return torch.randint(low, high, size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def on(device: str, value: Any) -> Any:
    """Returns ``value`` with copies of all tensors on ``device``."""
    return pytree.tree_map_only(torch.Tensor, lambda x: x.detach().clone().to(device), value)


def exact(value: Any) -> Any:
    """Returns ``value`` with floating-point tensors in float64 and complex tensors in complex128."""

    def one(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.complex128) if x.is_complex() else x.double() if x.is_floating_point() else x

    return pytree.tree_map_only(torch.Tensor, one, value)


def check(
    op: Any,
    args: Sequence[Any],
    reference: Callable[..., Any],
    *,
    dynamic: bool = True,
    whole: bool = False,
    compiled: bool = True,
    calls_products: bool = False,
    **kwargs: Any,
) -> None:
    """Checks the call ``op(*args, **kwargs)`` in all modes. On cpu it gives, also in arguments that it writes, what
    ``reference`` computes in float64. On npu it gives the same as on cpu with npu's products, also in a captured
    graph, which copies nothing but new results. Fake tensors give the same sizes, strides, dtypes and sharing of
    memory, with sizes that are numbers and, with ``dynamic``, symbols. With ``compiled``, a compiled call gives the
    same. Of the calls of a test function, the first is compiled and made with symbols. ``whole``: compiled graphs do
    not take the operator apart. ``calls_products``: the kernel calls products below the dispatcher, which on cpu are
    not npu's, so that results of npu are compared with those of ``reference``."""
    got_args, got_kwargs = on("cpu", args), on("cpu", kwargs)
    with ProductsOfNpu():
        got = op(*got_args, **got_kwargs)
    want_args, want_kwargs = exact((on("cpu", args), on("cpu", kwargs)))
    want = reference(*want_args, **want_kwargs)
    check_close(got, want)
    check_close((got_args, got_kwargs), (want_args, want_kwargs))
    if calls_products:
        check_close(on("cpu", _on_npu(op, args, kwargs)), (want, want_args, want_kwargs))
    else:
        _check_on_npu(op, args, kwargs, got, (got_args, got_kwargs))
    check_captured(op, on("npu", (tuple(args), kwargs)))
    _check_meta(op, args, kwargs, got, dynamic=False)
    if dynamic and _is_due("with symbols", op):
        _check_meta(op, args, kwargs, got, dynamic=True)
    if compiled and _is_due("compiled", op):
        _check_compiled(op, args, kwargs, (got, got_args, got_kwargs), whole)


def _is_due(kind: str, op: Any) -> bool:
    key = kind, str(op), os.environ["PYTEST_CURRENT_TEST"].partition("[")[0]
    is_due = "ALL_CHECKS" in os.environ or key not in _DONE
    _DONE.add(key)
    return is_due


def check_close(got: Any, want: Any) -> None:
    """Checks that tensors of ``got`` equal those of ``want`` up to rounding to their dtypes. A None in ``want`` stands
    for a result that is not defined."""
    got_leaves = pytree.tree_leaves(got, is_leaf=lambda x: x is None)
    want_leaves = pytree.tree_leaves(want, is_leaf=lambda x: x is None)
    assert len(got_leaves) == len(want_leaves)
    for g, w in zip(got_leaves, want_leaves, strict=True):
        if not isinstance(w, torch.Tensor):
            assert w is None or g == w
            continue
        assert g.shape == w.shape
        g, w = (torch.view_as_real(x) if x.is_complex() else x for x in (g, w))
        if g.is_floating_point():
            rtol, atol = TOLERANCES[g.dtype]
            torch.testing.assert_close(g.double(), w.double(), rtol=rtol, atol=atol, equal_nan=True)
        else:
            torch.testing.assert_close(
                g.long(), w.long(), rtol=0, atol=1 if g.dtype in (torch.int8, torch.uint8) else 0
            )


def check_refused(name: str, message: str, *args: Any, **kwargs: Any) -> None:
    """Checks that the operator ``name`` of ``torch_npu`` refuses the arguments on both devices. The error begins with
    the name and ``message``, which is a regular expression."""
    import torch_npu

    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError, match=f"^{name}: {message}"):
            getattr(torch_npu, name)(*on(device, args), **on(device, kwargs))


def _on_npu(op: Any, args: Any, kwargs: Any) -> Any:
    """Returns the results of a call on npu, and its arguments after it."""
    got_args, got_kwargs = on("npu", args), on("npu", kwargs)
    got = op(*got_args, **got_kwargs)
    assert all(x.device.type == "npu" for x in tensors(got))
    return got, got_args, got_kwargs


def _check_on_npu(op: Any, args: Any, kwargs: Any, want: Any, want_args: Any) -> None:
    for g, w in zip(tensors(_on_npu(op, args, kwargs)), tensors((want, *want_args)), strict=True):
        assert torch.equal(torch.nan_to_num(g.cpu().double()), torch.nan_to_num(w.double()))


def _check_meta(op: Any, args: Any, kwargs: Any, want: Any, *, dynamic: bool) -> None:
    args, kwargs = on("cpu", args), on("cpu", kwargs)
    real = op(*args, **kwargs)
    assert len(tensors(real)) == len(tensors(want))
    check_fake(op, args, kwargs, real, dynamic=dynamic)


def check_fake(op: Any, args: Any, kwargs: Any, want: Any, *, dynamic: bool) -> None:
    """Checks that the call with fake tensors like the arguments gives results like ``want``. Sizes are symbols if
    ``dynamic``, and numbers otherwise."""
    shape_env = ShapeEnv()
    mode = FakeTensorMode(shape_env=shape_env if dynamic else None, allow_non_fake_inputs=False)
    mode.cache_enabled = False  # a cache would not help: each call is made once

    def fake(x: torch.Tensor) -> torch.Tensor:
        if not dynamic:
            return mode.from_tensor(x, static_shapes=True)
        context = StatelessSymbolicContext([DimDynamic.DYNAMIC if n > 1 else DimDynamic.STATIC for n in x.shape])
        return mode.from_tensor(x, symbolic_context=context)

    fake_args, fake_kwargs = pytree.tree_map_only(torch.Tensor, fake, (args, kwargs))
    with mode:
        got = op(*fake_args, **fake_kwargs)
    check_alike((got, fake_args, fake_kwargs), (want, args, kwargs))


class FakesAreAlike(TorchDispatchMode):
    """Mode that repeats each call of an npu operator with fake tensors like its arguments, and checks that both give
    like results."""

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = op(*args, **(kwargs or {}))
        if op.namespace == "npu":
            for dynamic in (False, True):
                try:
                    check_fake(op, args, kwargs or {}, results, dynamic=dynamic)
                except BaseException as error:
                    raise AssertionError(f"{op} of fake tensors, dynamic={dynamic}: {error}") from error
        return results


def with_fakes(function: Callable[..., Any], *args: Any) -> None:
    """Runs a function within :class:`FakesAreAlike`."""
    with FakesAreAlike():
        function(*args)


def check_alike(got: tuple[Any, Any, Any], want: tuple[Any, Any, Any]) -> None:
    """Checks that results, which come first, have the same sizes, strides (where these have a meaning), dtypes and
    devices, and share memory with each other and with the arguments in the same way."""
    assert len(tensors(got[0])) == len(tensors(want[0]))
    for g, w in zip(tensors(got[0]), tensors(want[0]), strict=True):
        assert [_number(n) for n in g.shape] == list(w.shape)
        wide = [dim for dim, size in enumerate(w.shape) if size > 1 and w.numel() > 0]
        assert [_number(g.stride(dim)) for dim in wide] == [w.stride(dim) for dim in wide]
        assert g.dtype == w.dtype
        assert g.device.type in (w.device.type, "meta")
    assert _sharing(tensors(got)) == _sharing(tensors(want))


def _number(size: Any) -> int:
    return size if isinstance(size, int) else size.node.hint


def _sharing(values: Sequence[torch.Tensor]) -> list[int]:
    """Returns for each tensor the index of the first tensor with the same memory."""
    storages = [x.untyped_storage()._cdata for x in values]
    return [storages.index(storage) for storage in storages]


def _check_compiled(op: Any, args: Any, kwargs: Any, want: Any, whole: bool) -> None:
    import npugraph

    torch._dynamo.reset()
    earlier = set(npugraph.artifacts())
    compiled = torch.compile(lambda args, kwargs: op(*args, **kwargs), backend="npugraph_ex", fullgraph=True)
    got_args, got_kwargs = on("npu", args), on("npu", kwargs)
    with torch.no_grad():
        got = compiled(got_args, got_kwargs)
    check_close(on("cpu", tensors((got, got_args, got_kwargs))), tensors(want))
    made = [artifact for artifact in npugraph.artifacts() if artifact not in earlier]
    assert made, "nothing was compiled"
    for artifact in made:
        assert whole == any(task.name.startswith(("npu.", "atb.")) for task in artifact.tasks)


def check_gradient(op: Any, args: Sequence[Any], reference: Callable[..., Any], **kwargs: Any) -> None:
    """Checks gradients of a weighted sum of all floating-point results, for all floating-point arguments, on npu."""
    got_args = pytree.tree_map_only(torch.Tensor, _leaf, on("npu", args))
    want_args = pytree.tree_map_only(torch.Tensor, _leaf, exact(on("cpu", args)))
    _weighted_sum(op(*got_args, **on("npu", kwargs))).backward()
    _weighted_sum(reference(*want_args, **exact(kwargs))).backward()
    for g, w in zip(tensors(got_args), tensors(want_args), strict=True):
        if w.is_floating_point():
            check_close(g.grad.cpu(), w.grad)


def _leaf(x: torch.Tensor) -> torch.Tensor:
    return x.requires_grad_() if x.is_floating_point() else x


def _weighted_sum(results: Any) -> torch.Tensor:
    floating = [x for x in tensors(results) if x.is_floating_point() and x.requires_grad]
    return sum((x.double() * normal(*x.shape, seed=i + 1).to(x.device)).sum() for i, x in enumerate(floating))
