# SPDX-License-Identifier: Apache-2.0
"""Ways in which the elements of a tensor can lie in memory, and comparisons of compiled operators with eager over them:
strides of results and, while all fresh memory is NaN, values."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

import npugraph
from tests.python.backend.checks import compile_ex, strides
from tests.python.op_samples import OPERATORS, samples


def in_order(tensor: torch.Tensor, order: list[int]) -> torch.Tensor:
    """Returns a dense copy with the dimensions of ``order`` from the outermost in memory to the innermost."""
    dense = tensor.permute(order).clone(memory_format=torch.contiguous_format)
    return dense.permute([order.index(dim) for dim in range(len(order))])


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return in_order(tensor, [0, *range(2, tensor.dim()), 1]) if tensor.dim() > 2 else tensor


def turned(tensor: torch.Tensor) -> torch.Tensor:
    return in_order(tensor, [1, 0, *range(2, tensor.dim())]) if tensor.dim() > 1 else tensor


def reversed_(tensor: torch.Tensor) -> torch.Tensor:
    return in_order(tensor, list(reversed(range(tensor.dim()))))


def with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    every_other = (slice(None, None, 2),) * tensor.dim()
    around = tensor.new_zeros([2 * size for size in tensor.shape])
    around[every_other] = tensor
    return around[every_other]


# Operators whose gradients have other strides than in eager, with the reason.
OTHER_GRADIENTS = {
    # AOTAutograd differentiates other formulas than eager, where those of eager read values.
    **dict.fromkeys(
        (*("linalg_householder_product", "ormqr", "prod"), *("max_reduction_no_dim", "min_reduction_no_dim")),
        "other formulas",
    ),
    # AOTAutograd gives gradients of results the strides of the results, here with gaps. torch.ones_like() has none.
    **dict.fromkeys(("diagonal_scatter", "select_scatter", "slice_scatter"), "gaps of the result"),
    "istft": "AOTAutograd drops view_as_real and view_as_complex, and the copy between their gradients",
}

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "channels last": channels_last,
    "turned": turned,
    "reversed": reversed_,
    "gaps": with_gaps,
}


@contextlib.contextmanager
def poison() -> Iterator[None]:
    """Context manager: memory without content is NaN."""
    npugraph.poison_freed_memory()
    try:
        yield
    finally:
        npugraph.poison_freed_memory(False)


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def laid_out(value: Any, layout: Callable[[torch.Tensor], torch.Tensor], *, first: bool = False) -> Any:
    """Returns ``value`` with copies of its dense tensors in the layout, or of the first of them only."""
    numbers = itertools.count()

    def one(tensor: torch.Tensor) -> torch.Tensor:
        is_plain = tensor.layout is torch.strided and not tensor.is_quantized
        is_meant = next(numbers) == 0 or not first
        made = layout(tensor.detach()) if is_plain and is_meant else tensor.detach().clone()
        return made.requires_grad_(tensor.requires_grad)

    return pytree.tree_map_only(torch.Tensor, one, value)


def sampled(name: str, dtype: torch.dtype, most: int) -> Iterator[tuple[Any, Any, Any]]:
    """Yields input, args and kwargs of the first samples of an operator of the database, which require gradients where
    eager has them. There are none if the operator does not take the type."""
    op = OPERATORS[name]
    if dtype not in op.supported_dtypes("cpu"):
        return
    trains = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    for sample in itertools.islice(samples(name, dtype, requires_grad=trains), most):
        yield sample.input, sample.args, sample.kwargs


def run_sample(name: str, values: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    """Calls an operator of the database. Returns its results and the gradients of its arguments."""
    return with_gradients(lambda x, args, kwargs: OPERATORS[name].op(x, *args, **kwargs), values)


def compare_layouts(name: str, to_device: Callable[[Any], Any] = lambda value: value) -> list[str]:
    """Returns the differences of compiled calls of an operator of the database from eager: of its first sample in all
    layouts, with gradients where eager has them."""
    op, found = OPERATORS[name], []
    dtypes = op.supported_dtypes("cpu")
    dtype = torch.float32 if torch.float32 in dtypes else next(iter(dtypes))
    for values in sampled(name, dtype, 2):
        for (layout, lay_out), first in itertools.product(LAYOUTS.items(), (False, True)):
            with contextlib.suppress(_EagerRefusesError):
                given = to_device(laid_out(values, lay_out, first=first))
                if difference := _difference(op.op, given, name in OTHER_GRADIENTS):
                    found.append(f"{name}, {layout}{' first' * first}: {difference}")
    return found


class _EagerRefusesError(Exception):
    pass


def _difference(function: Callable[..., Any], values: Any, other_gradients: bool) -> str | None:
    def call(x: Any, args: Any, kwargs: Any) -> Any:
        return function(x, *args, **kwargs)

    torch.manual_seed(0)
    try:
        want, of_gradients = map(tensors, with_gradients(call, values))
    except Exception as error:
        raise _EagerRefusesError from error
    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings(), poison():
        warnings.simplefilter("ignore", npugraph.NpugraphWarning)
        got = tensors(with_gradients(compile_ex(call, fullgraph=False, dynamic=False), values))
    for number, (one, other) in enumerate(zip(got, want + of_gradients, strict=True)):
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"result {number} is {one.dtype}{list(one.shape)}, in eager {other.dtype}{list(other.shape)}"
        if other.layout is not torch.strided:
            continue
        compares_strides = number < len(want) or not other_gradients
        if compares_strides and strides(one) != strides(other):
            return f"result {number} of sizes {list(other.shape)} has strides {one.stride()}, in eager {other.stride()}"
        if not torch.allclose(_comparable(one), _comparable(other), rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"values of result {number}"
    return None


def with_gradients(call: Callable[..., Any], values: Any) -> tuple[Any, Any]:
    """Returns the results of a call and the gradients of its arguments."""
    results = call(*values)
    made = [one for one in tensors(results) if one.requires_grad and one.is_floating_point()]
    leaves = [one for one in tensors(values) if one.requires_grad]
    if not made or not leaves:
        return results, ()
    return results, torch.autograd.grad(made, leaves, [torch.ones_like(one) for one in made], allow_unused=True)


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    value = tensor.detach().cpu().resolve_conj().resolve_neg()
    return value.float() if value.is_floating_point() and value.itemsize < 4 else value
