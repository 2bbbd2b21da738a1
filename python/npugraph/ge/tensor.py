# SPDX-License-Identifier: Apache-2.0
"""Results of operators of a graph, and what FX knows of a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from npugraph.ge import data_types

UNKNOWN_SIZE = -1
UNKNOWN_RANK = (-2,)  # the dims of a tensor of which not even the rank is known

# The type of a result that is a number and not a tensor.
_OF_NUMBERS = (
    ((bool, torch.SymBool), torch.bool),
    ((int, torch.SymInt), torch.int64),
    ((float, torch.SymFloat), torch.float32),
)


@dataclass(frozen=True)
class TensorSpec:
    """Element type and sizes of a result. A size is an int or a ``torch.SymInt``."""

    dtype: Any  # DataType
    size: tuple[Any, ...]
    # The dimensions as FX has them in memory, that with the largest stride first; empty for row-major order, None for a
    # tensor that is not dense or not at the start of its memory.
    order: tuple[int, ...] | None = ()

    @property
    def rank(self) -> int:
        return len(self.size)

    @classmethod
    def of(cls, meta: Any) -> TensorSpec:
        """That of the value ``meta`` of an FX node: a tensor or a number. Raises ``RuntimeError`` for anything else."""
        if isinstance(meta, torch.Tensor):
            return cls(data_types.of_torch(meta.dtype), tuple(meta.size()))
        for kinds, dtype in _OF_NUMBERS:
            if isinstance(meta, kinds):
                return cls(data_types.of_torch(dtype), ())
        raise RuntimeError(f"a result of an FX node is a tensor or a number, got {meta!r} ({type(meta).__name__})")

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.size))
        return f"Tensor(dtype={data_types.as_data_type(self.dtype).name}, shape=[{sizes}])"


class Tensor:
    """Result ``index`` of the operator ``node`` (an ``OpDef``), which outlives it."""

    def __init__(self, node: Any, index: int = 0, size: Sequence[Any] | None = None) -> None:
        self.node = node
        self.index = index
        self.symsize = None if size is None else list(size)  # sizes as FX knows them; None if nobody has said them
        self.order: tuple[int, ...] | None = ()  # see TensorSpec

    @property
    def desc(self) -> Any:
        """Its ``TensorDescriptor``, which the graph holds."""
        return self.node.output_desc[self.index]

    @property
    def dtype(self) -> Any:
        """Its ``DataType``; ``DT_UNDEFINED`` if the engine alone can tell it."""
        return data_types.of_proto(self.desc.dtype)

    @property
    def rank(self) -> int:
        """Its number of dimensions; -1 if it is not known."""
        return -1 if self.symsize is None else len(self.symsize)

    @property
    def tensor(self) -> str:
        """How an operator that reads it names it."""
        return f"{self.node.name}:{self.index}"

    @property
    def controller(self) -> str:
        """How an operator that only runs after it names it."""
        return f"{self.node.name}:-1"

    def set_meta(self, spec: TensorSpec) -> None:
        """Says what FX knows of it. Readers of before keep their descriptors."""
        self.symsize = list(spec.size)
        self.order = spec.order
        self.desc.dtype = data_types.to_proto(spec.dtype)
        self.desc.attr["_meta"].s = str(spec).encode()

    def __repr__(self) -> str:
        size = "unknown" if self.symsize is None else self.symsize
        return f"Tensor({self.tensor!r}, dtype={self.dtype.name}, size={size})"


def dims_of(size: Sequence[Any]) -> list[int]:
    """Sizes as messages have them: -1 for one that is not an int."""
    return [dim if isinstance(dim, int) else UNKNOWN_SIZE for dim in size]


def is_control(input_name: str) -> bool:
    """Whether an input of an ``OpDef`` is an order without data."""
    return input_name.endswith(":-1")


def data_inputs(op: Any) -> list[str]:
    """Inputs of an ``OpDef`` that are data, one for each ``input_desc`` that has any; empty text for an absent one."""
    return [name for name in op.input if not is_control(name)]
