# SPDX-License-Identifier: Apache-2.0
"""Calls that a converter declares as its examples: ``declare_supported([Support(F32(2, 3), dim=1)])``.

A call has the arguments of the operator, with a word such as ``F32`` where it takes a tensor."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch.utils import _pytree as pytree

_Body = TypeVar("_Body", bound=Callable[..., Any])


class TypedTensor:
    """A tensor among the arguments of a declared call: its sizes and element type. ``value_range`` has the least and
    the largest value. ``value`` are the elements themselves, where only these will do."""

    def __init__(
        self,
        *size: int,
        dtype: torch.dtype,
        value_range: tuple[float, float] | None = None,
        value: Any = None,
    ) -> None:
        self.size, self.dtype, self.value_range, self.value = size, dtype, value_range, value

    def make(self, generator: torch.Generator, device: str) -> torch.Tensor:
        """A tensor like that. Without a range, numbers are normally distributed, and integers are 0 and 1."""
        if self.value is not None:
            return torch.tensor(self.value, dtype=self.dtype, device=device)
        if self.dtype.is_complex or (self.dtype.is_floating_point and self.value_range is None):
            is_wide = self.dtype in (torch.float64, torch.complex64, torch.complex128)
            made = torch.randn(self.size, generator=generator, dtype=self.dtype if is_wide else torch.float32)
        elif self.dtype.is_floating_point:
            low, high = self.value_range or (0.0, 1.0)
            made = torch.rand(self.size, generator=generator, dtype=torch.float64) * (high - low) + low
        else:
            low, high = map(int, self.value_range or (0, 1))
            made = torch.randint(low, high + 1, self.size, generator=generator)
        return made.to(device, self.dtype)

    def __repr__(self) -> str:
        word = str(self.dtype).removeprefix("torch.")
        return f"{word}{list(self.size)}" if self.value is None else f"{word}({self.value})"


# Word of a declaration -> element type.
_WORDS = {
    **{f"F{bits}": getattr(torch, f"float{bits}") for bits in (16, 32, 64)},
    **{f"I{bits}": getattr(torch, f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"U{bits}": getattr(torch, f"uint{bits}") for bits in (8, 16, 32, 64)},
    **{f"C{bits}": getattr(torch, f"complex{bits}") for bits in (32, 64, 128)},
    "BF16": torch.bfloat16,
    "BOOL": torch.bool,
}
# Makers of ``TypedTensor``, which take sizes.
WORDS = {word: functools.partial(TypedTensor, dtype=dtype) for word, dtype in _WORDS.items()}


def T(value: Any, dtype: torch.dtype | None = None) -> TypedTensor:
    """A tensor with these elements."""
    made = torch.as_tensor(value, dtype=dtype)
    return TypedTensor(*made.size(), dtype=made.dtype, value=made.tolist())


class Support:
    """A call that a converter declares."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs

    def make(self, device: str) -> tuple[list[torch.Tensor], Callable[..., tuple[list[Any], dict[str, Any]]]]:
        """Returns the tensors among the arguments, and a function that makes all arguments of such tensors. They are
        the same ones each time."""
        generator = torch.Generator().manual_seed(0)
        leaves, spec = pytree.tree_flatten((list(self.args), self.kwargs))
        places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, TypedTensor)]
        tensors = [leaves[place].make(generator, device) for place in places]

        def arguments(*given: torch.Tensor) -> tuple[list[Any], dict[str, Any]]:
            filled = list(leaves)
            for place, tensor in zip(places, given, strict=True):
                filled[place] = tensor
            return pytree.tree_unflatten(filled, spec)

        return tensors, arguments

    def __repr__(self) -> str:
        return ", ".join([*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())])


def declare_supported(supported_cases: Sequence[Support]) -> Callable[[_Body], _Body]:
    """Keeps calls with the decorated converter, as its attribute ``supported_cases``. The order of this decorator and
    ``register_fx_node_ge_converter`` does not matter. ``npugraph.testing.assert_supported`` runs the calls."""

    def declare(body: _Body) -> _Body:
        body.supported_cases = tuple(supported_cases)  # type: ignore[attr-defined]
        return body

    return declare
