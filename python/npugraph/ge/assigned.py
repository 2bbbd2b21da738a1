# SPDX-License-Identifier: Apache-2.0
"""The tensors to which a run of a graph writes its results, and what is known of the results before the run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._dtype_abbrs import dtype_abbrs

_DTYPES = {text: dtype for dtype, text in dtype_abbrs.items()} | {"bool": torch.bool}
_TENSOR = re.compile(r"(\w+)\[([^](]*)\]")  # without sizes that are calls, such as min(d0, d1)


class Result(NamedTuple):
    """An element type and sizes; None stands for what is not known."""

    dtype: torch.dtype
    sizes: tuple[int | None, ...]


class Results:
    """The results of a compiled graph. ``core`` is its artifact of C++."""

    def __init__(self, core: Any) -> None:
        graph = core.graph("import")
        types = dict(text.split(": ", 1) for text, _ in core.inputs())
        for node in graph.nodes():
            types.update(zip(node["results"], node["types"], strict=True))
        self._inputs = [_texts(sizes) for _, sizes, _ in graph.inputs()]
        self._types = [types.get(getattr(output, "name", None), "") for output in graph.outputs()]

    def of_run(self, inputs: Sequence[Any]) -> list[Result | None]:
        """What is known of the results of a run with these inputs before it. Sizes that the graph computes, such as the
        sum of two sizes of inputs, are not."""
        known: dict[str, int] = {}
        for symbols, given in zip(self._inputs, inputs, strict=True):
            if isinstance(given, torch.Tensor):
                known.update(zip(symbols, given.shape, strict=False))
        return [_result(text, known) for text in self._types]


def _texts(sizes: Any) -> list[str]:
    return [str(size) for size in sizes] if isinstance(sizes, list) else []  # of a number, it is its expression


def _result(text: str, known: dict[str, int]) -> Result | None:
    found = _TENSOR.match(text)
    if found is None:
        return None
    dims = found[2].split(", ") if found[2] else []
    return Result(_DTYPES[found[1]], tuple(int(dim) if dim.isdecimal() else known.get(dim) for dim in dims))


def check_assigned(name: str, assigned: Sequence[Any], results: Sequence[Result | None]) -> None:
    """Raises ``ValueError`` if an assigned output of the graph of that name cannot hold the result of its place. None
    among them stands for a new tensor."""
    if len(assigned) > len(results):
        results_text = "1 result" if len(results) == 1 else f"{len(results)} results"
        raise ValueError(f"graph {name!r} has {results_text}, got {len(assigned)} assigned outputs")
    for index, (output, result) in enumerate(zip(assigned, results, strict=False)):
        if output is None or result is None:
            continue
        fits = len(output.shape) == len(result.sizes) and all(
            size in (None, given) for given, size in zip(output.shape, result.sizes, strict=True)
        )
        if output.dtype != result.dtype or not fits:
            sizes = ", ".join("?" if size is None else str(size) for size in result.sizes)
            raise ValueError(
                f"result {index} of graph {name!r} is {result.dtype} of sizes [{sizes}], and its assigned output has "
                f"to be the same, got {output.dtype} of sizes {list(output.shape)}"
            )
