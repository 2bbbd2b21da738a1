# SPDX-License-Identifier: Apache-2.0
"""Arguments to try an operator with, which follow from its schema."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from npugraph.fx.schema import is_tensor

Arguments = dict[str, Any]  # by the names of the schema

_SHAPES = ((4, 6), (6,), (2, 4, 6), (4, 4), (1, 3, 8, 8), ())
# By the texts of types, for arguments without a default.
_NUMBERS: dict[str, Any] = {"int": 1, "SymInt": 1, "float": 0.5, "number": 0.5, "bool": True, "str": ""}
_NUMBERS |= {"ScalarType": torch.float32, "Device": torch.device("cpu")}
_NUMBERS |= {"List[int]": [1], "List[SymInt]": [1], "List[float]": [0.5], "List[bool]": [True]}


def samples(operator: Any) -> Iterator[Arguments]:
    """Arguments that may be valid for an operator: tensors of equal sizes and of float32, some of them integers."""
    arguments = operator._schema.arguments
    tensors = [argument.name for argument in arguments if is_tensor(argument)]
    integers = [(), *((name,) for name in tensors), tuple(tensors)]
    for shape, whole in itertools.product(_SHAPES, integers):
        generator = torch.Generator().manual_seed(0)
        yield {
            argument.name: _value(argument, shape, torch.int64 if argument.name in whole else torch.float32, generator)
            for argument in arguments
            if not argument.has_default_value()
        }


def _value(argument: Any, shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Any:
    text = str(argument.real_type)
    if text.startswith("Optional["):
        return None
    if is_tensor(argument):
        values = [
            torch.randint(0, 2, shape, generator=generator)
            if dtype == torch.int64
            else torch.randn(shape, generator=generator)
            for _ in range(2 if "List[" in text else 1)
        ]
        return values if "List[" in text else values[0]
    return _NUMBERS.get(text)


def variants(sample: Arguments) -> Iterator[tuple[str, Arguments]]:
    """The same arguments in other layouts and element types, with a name for each variant."""
    yield "as they are", sample
    for name, change in _VARIANTS.items():
        changed = pytree.tree_map_only(torch.Tensor, change, sample)
        if any(a is not b for a, b in zip(pytree.tree_leaves(changed), pytree.tree_leaves(sample), strict=True)):
            yield name, changed


def _in_columns(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, -1).contiguous().transpose(0, -1) if x.dim() > 1 else x


def _with_gaps(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x, x], -1)[..., 0] if x.dim() else x


def _to(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x.to(dtype) if x.is_floating_point() else x


_VARIANTS = {
    "with the first dimension innermost": _in_columns,
    "with gaps between elements": _with_gaps,
    "in float64": _to(torch.float64),
    "in bfloat16": _to(torch.bfloat16),
    "in float16": _to(torch.float16),
}


def copied(arguments: Arguments) -> Arguments:
    """The same with a copy of each tensor, in the same layout."""

    def copy(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device).copy_(x)

    return pytree.tree_map_only(torch.Tensor, copy, arguments)


def described(arguments: Arguments) -> str:
    return ", ".join(
        f"{name}={pytree.tree_map_only(torch.Tensor, tensor_text, value)}" for name, value in arguments.items()
    )


class _Text(str):
    __repr__ = str.__str__


def tensor_text(x: torch.Tensor) -> str:
    sizes = ", ".join(map(str, x.size()))
    strides = "" if x.is_contiguous() else f" with strides {tuple(x.stride())}"
    return _Text(f"{str(x.dtype).removeprefix('torch.')}[{sizes}]{strides}")
