# SPDX-License-Identifier: Apache-2.0
"""A random program as data: the lines that make the inputs, the lines of the function, and the names that it
returns."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # makes torch.ops.quantized_decomposed

Function = Callable[..., tuple[torch.Tensor, ...]]


def values(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Returns a tensor of small multiples of 1/4, or of small integers. Sums and products of few of them are exact."""
    numbers = (torch.arange(math.prod(shape)) * 7 + seed * 5) % 17 - 8
    numbers = numbers.reshape(shape)
    if dtype == torch.bool:
        return numbers > 0
    return (numbers / 4).to(dtype) if dtype.is_floating_point else numbers.to(dtype)


@dataclasses.dataclass(frozen=True)
class Program:
    """A program that is printed as Python source and run by executing that source."""

    inputs: tuple[tuple[str, str], ...]  # lines that make bases and arguments: name, and expression of n and seed
    parameters: tuple[str, ...]  # those of the names above that the function takes
    lines: tuple[str, ...]
    outputs: tuple[str, ...]
    sizes: tuple[int, ...]  # values of n, one per call
    # None if no step rounds; results must then be equal bit by bit. Otherwise all results are compared at most as
    # closely as values of this type, because values may have been promoted after they were rounded.
    rounding: torch.dtype | None
    features: frozenset[str]

    def source(self) -> str:
        """Returns the Python source of the function."""
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def program({', '.join(self.parameters)}):\n{body}    return ({', '.join(self.outputs)},)\n"

    def input_source(self) -> str:
        """Returns the Python source of a function that makes the arguments of a call."""
        body = "".join(f"    {name} = {expression}\n" for name, expression in self.inputs)
        return f"def arguments(n, seed):\n{body}    return ({', '.join(self.parameters)},)\n"

    def function(self) -> Function:
        return _execute(self.source(), "program")

    def arguments(self, n: int, seed: int) -> tuple[torch.Tensor, ...]:
        """Returns new arguments, which alias each other as the program says."""
        return _execute(self.input_source(), "arguments")(n, seed)

    def varying_dims(self) -> set[tuple[int, int]]:
        """Returns the number of the argument and the dimension of each size that differs between calls."""
        all_sizes = [[t.shape for t in self.arguments(n, 0)] for n in self.sizes]
        return {
            (number, dim)
            for number, shapes in enumerate(zip(*all_sizes, strict=True))
            for dim, sizes in enumerate(zip(*shapes, strict=True))
            if len(set(sizes)) > 1
        }

    def __repr__(self) -> str:
        return f"\n{self.input_source()}\n{self.source()}\n# n: {self.sizes}\n"


def _execute(source: str, name: str) -> Any:
    namespace: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "values": values}
    exec(compile(source, "<random program>", "exec"), namespace)
    return namespace[name]
