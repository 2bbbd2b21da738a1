# SPDX-License-Identifier: Apache-2.0
"""Functions of torch that compute operators of Ascend IR without a rule. They take what an operator takes, and are
traced (``computations``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._decomp.decompositions import _grid_sampler_2d

from npugraph.fx.schema import is_foreach
from npugraph.ge.converters.computations import computed_by

aten = torch.ops.aten

# Operators that torch itself states by others. The engine has code for these.
_STATED_BY_OTHERS = frozenset(
    (
        aten._prelu_kernel_backward.default,
        aten.native_batch_norm_backward.default,
        aten.pixel_shuffle.default,
    )
)


def function_of(target: Any) -> Callable[..., Any]:
    """What computes calls of an operator of torch: its parts, or the operator itself."""
    return decomposition_table[target] if target in _STATED_BY_OTHERS else target


def computed_by_target(results: Any, target: str, arguments: Mapping[str, Any]) -> None:
    """Says that the overload of that name computes ``results`` of these arguments."""
    namespace, name, overload = target.split(".")
    operator = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    computed_by(results, _called, operator, dict(arguments), calls=() if is_foreach(operator) else (operator,))


def _called(operator: Any, arguments: Mapping[str, Any]) -> Any:
    by_place = [argument.name for argument in operator._schema.arguments if not argument.kwarg_only]
    kwargs = {name: value for name, value in arguments.items() if name not in by_place}
    return function_of(operator)(*(arguments[name] for name in by_place), **kwargs)


def convolution_input_gradient(
    x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, windows: Sequence[Any]
) -> torch.Tensor:
    """That of the input, of which only the sizes matter. ``windows`` are the arguments of ``convolution_backward`` from
    ``stride`` to ``groups``."""
    like = grad.new_empty(1).expand(x.shape)
    return aten.convolution_backward(grad, like, weight, None, *windows, [True, False, False])[0]


def convolution_filter_gradient(
    x: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor, windows: Sequence[Any]
) -> torch.Tensor:
    """That of the weight, of which only the sizes matter."""
    like = grad.new_empty(1).expand(weight.shape)
    return aten.convolution_backward(grad, x, like, None, *windows, [False, True, False])[1]


def on_like(function: Callable[..., Any], grad: torch.Tensor, x: torch.Tensor, *how: Any) -> torch.Tensor:
    """A gradient by a function of ``grad`` and ``x``, of which only the sizes matter."""
    return function(grad, grad.new_empty(1).expand(x.shape), *how)


def padding_gradient(function: Callable[..., Any], grad: torch.Tensor, pads: Sequence[int]) -> torch.Tensor:
    """``pads`` are pairs of numbers of elements in front and behind, those of the last dimension first."""
    sizes = list(grad.shape)
    for dim, pair in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        sizes[-1 - dim] = sizes[-1 - dim] - sum(pair)
    return function(grad, grad.new_empty(1).expand(sizes), pads)


def group_norm_gradients(
    grad: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    groups: int,
    wanted: Sequence[bool],
) -> Any:
    images, channels, *rest = x.shape
    sizes = (images, channels, math.prod(rest), groups)
    return decomposition_table[aten.native_group_norm_backward.default](grad, x, mean, rstd, weight, *sizes, wanted)


def grid_sample(x: torch.Tensor, *how: Any) -> torch.Tensor:
    """The parts compute half types with more digits than the operator, which is why that is called for these. Places
    and weights are computed once for all channels."""
    if x.dtype.itemsize <= 2:
        return aten.grid_sampler_2d.default(x, *how)
    return _grid_sampler_2d(x, *how, _expand_grid=False)


def grouped_filter_gradient(columns: torch.Tensor, ends: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """A matrix for each group: columns of the group times its rows of ``grad``. The operator of transformers computes
    it beside the gradient of the rows."""
    like = grad.new_empty(1).expand([ends.shape[0], columns.shape[0], grad.shape[1]])
    return torch.ops.transformers.grouped_mm_fallback_backward(columns.t(), like, ends, grad)[1]


def max_pool_gradient(x: torch.Tensor, grad: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Each element of ``grad`` is added at its place in the height and width of images like ``x``."""
    zeros = grad.new_zeros([*x.shape[:-2], x.shape[-2] * x.shape[-1]])
    return zeros.scatter_add(-1, places.flatten(-2), grad.flatten(-2)).view(x.shape)


def layer_norm_gradients(
    grad: torch.Tensor,
    x: torch.Tensor,
    sizes: Sequence[Any],
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    has_bias: bool,
    wanted: Sequence[bool],
) -> Any:
    """The trace takes the operator apart. Of a bias only the sizes and the type matter, which are those of a row."""
    bias = x.new_empty(1).expand(sizes) if has_bias else None
    return aten.native_layer_norm_backward(grad, x, sizes, mean, rstd, weight, bias, wanted)


def attention_gradients(*args: Any) -> Any:
    """Takes the arguments of ``_scaled_dot_product_flash_attention_for_cpu_backward`` by place."""
    *given, mask, scale = args
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(*given, attn_mask=mask, scale=scale)


def dropped(x: torch.Tensor, mask: torch.Tensor, p: float) -> torch.Tensor:
    """``x`` without the elements that the mask leaves out, scaled by what is left of the probability ``p``."""
    return scaled_by_mask(x, mask, 0.0 if p == 1 else 1.0 / (1.0 - p))


def scaled_by_mask(x: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    return x.mul(mask).mul(scale)


# Random numbers. Their functions take sizes, the order of the dimensions in memory, in which numbers are drawn, the
# element type, and a device or a tensor of it.

# Operators of the host that draw them.
DRAWS = (
    *(aten.bernoulli.p, aten.bernoulli.Tensor, aten.multinomial.default, aten.rand.default, aten.randint.low),
    *(aten.randn.default, aten.randperm.default),
)
Sizes, Order = Sequence[Any], Sequence[int]


def uniform(sizes: Sizes, order: Order, dtype: torch.dtype, place: Any) -> torch.Tensor:
    drawn = aten.rand.default(_in(order, sizes), dtype=dtype, device=_device(place), pin_memory=False)
    return _put_back(drawn, order)


def normal(sizes: Sizes, order: Order, dtype: torch.dtype, place: Any) -> torch.Tensor:
    drawn = aten.randn.default(_in(order, sizes), dtype=dtype, device=_device(place), pin_memory=False)
    return _put_back(drawn, order)


def whole(sizes: Sizes, order: Order, dtype: torch.dtype, place: Any, low: int, high: int) -> torch.Tensor:
    drawn = aten.randint.low(low, high, _in(order, sizes), dtype=dtype, device=_device(place), pin_memory=False)
    return _put_back(drawn, order)


def coins(sizes: Sizes, order: Order, dtype: torch.dtype, place: Any, p: float) -> torch.Tensor:
    """Zeros and ones, 1 with the probability ``p``."""
    like = torch.empty([1], dtype=dtype, device=_device(place)).expand(_in(order, sizes))
    return _put_back(aten.bernoulli.p(like, p), order)


def coins_of_tensor(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """Of ``x`` only the sizes and the type matter."""
    return aten.bernoulli.Tensor(torch.empty([1], dtype=x.dtype, device=x.device).expand(x.shape), p)


def permutation(count: int, dtype: torch.dtype, place: Any) -> torch.Tensor:
    return aten.randperm.default(count, dtype=dtype, device=_device(place), pin_memory=False)


def _device(place: Any) -> Any:
    return place.device if isinstance(place, torch.Tensor) else place


def _in(order: Order, sizes: Sizes) -> list[Any]:
    return [sizes[dim] for dim in order]


def _put_back(x: torch.Tensor, order: Order) -> torch.Tensor:
    return x.permute([order.index(dim) for dim in range(len(order))])


def solve_triangular(matrix: torch.Tensor, rhs: torch.Tensor, upper: bool) -> torch.Tensor:
    """Solves matrix @ x = rhs."""
    return torch.linalg.solve_triangular(matrix, rhs, upper=upper)
