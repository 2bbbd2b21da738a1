# SPDX-License-Identifier: Apache-2.0
"""Converters of operators that surround images with elements, or give them another size."""

from __future__ import annotations

from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import images, integers, operand, parts_of
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor

aten = torch.ops.aten


@register_fx_node_ge_converter(aten.reflection_pad1d.default)
@register_fx_node_ge_converter(aten.reflection_pad2d.default)
@register_fx_node_ge_converter(aten.reflection_pad3d.default)
def reflection_pad(self: Tensor, padding: Any, *, meta_outputs: Any) -> Tensor:
    return ge.MirrorPad(self, pairs_from_first(self, padding), mode="REFLECT")


@register_fx_node_ge_converter(aten.replication_pad1d.default)
@register_fx_node_ge_converter(aten.replication_pad2d.default)
@register_fx_node_ge_converter(aten.replication_pad3d.default)
def replication_pad(self: Tensor, padding: Any, *, meta_outputs: Any) -> Tensor:
    return ge.PadV3(self, pairs_from_first(self, padding), mode="edge")


def pairs_from_first(x: Tensor, pad: Any) -> Any:
    """Torch lists pairs of numbers of elements before and behind from the last dimension on, Ascend from the first."""
    parts = parts_of(pad)
    pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
    pairs += [[0, 0]] * (x.rank - len(pairs))
    return integers([part for pair in reversed(pairs) for part in pair])


@register_fx_node_ge_converter(aten.upsample_nearest2d.default)
def upsample_nearest2d(
    self: Tensor, output_size: Any, scales_h: Any = None, scales_w: Any = None, *, meta_outputs: Any
) -> Tensor:
    """Ascend has no factors: they have to follow from the sizes."""
    for factor, size, wanted in zip((scales_h, scales_w), (self.symsize or ())[2:], meta_outputs.size[2:], strict=True):
        if factor is None:
            continue
        if not all(isinstance(number, (int, float)) for number in (factor, size, wanted)) or factor * size != wanted:
            raise NotImplementedError(f"its factor {factor} is not the quotient of its sizes")
    result = ge.ResizeNearestNeighborV2(self, operand(integers(parts_of(output_size)), DataType.DT_INT32))
    images(result)
    return result
