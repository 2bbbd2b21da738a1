# SPDX-License-Identifier: Apache-2.0
"""Converters of operators that sort elements, or find places by their order."""

from __future__ import annotations

from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import cast, common_type, dimension, operand, typed
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.topk.default)
def topk(self: Tensor, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True, *, meta_outputs: Any) -> Any:
    return ge.TopKV2(self, operand(k, DataType.DT_INT32), sorted=sorted, dim=dim, largest=largest)


@register_fx_node_ge_converter(aten.sort.default)
def sort(self: Tensor, dim: int = -1, descending: bool = False, *, meta_outputs: Any) -> list[Tensor]:
    return _sorted(self, dim, descending, False, meta_outputs)


@register_fx_node_ge_converter(aten.sort.stable)
def sort_stable(
    self: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False, meta_outputs: Any
) -> list[Tensor]:
    return _sorted(self, dim, descending, bool(stable), meta_outputs)


def _sorted(x: Tensor, dim: int, descending: bool, stable: bool, specs: Any) -> list[Tensor]:
    """Ascend sorts along the last dimension."""
    axis, last = dimension(dim, x.rank), max(x.rank - 1, 0)
    perm = list(range(x.rank))
    if axis != last:
        perm[axis], perm[last] = last, axis
        x = typed(ge.Transpose(x, perm), x.dtype, [(x.symsize or ())[d] for d in perm])
    results = list(ge.Sort(x, axis=-1, descending=descending, stable=stable))
    if axis == last:
        return results
    sorted_ = [typed(result, spec.dtype, x.symsize or ()) for result, spec in zip(results, specs, strict=True)]
    return [ge.Transpose(result, perm) for result in sorted_]


@register_fx_node_ge_converter(aten.searchsorted.Tensor)
def searchsorted(
    sorted_sequence: Tensor,
    self: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    meta_outputs: Any,
) -> Tensor:
    dtype = common_type([sorted_sequence, self])
    return ge.SearchSorted(
        cast(sorted_sequence, dtype),
        cast(self, dtype),
        sorter,
        dtype=meta_outputs.dtype,
        right=right if side is None else side == "right",
    )
