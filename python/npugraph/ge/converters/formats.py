# SPDX-License-Identifier: Apache-2.0
"""Formats of operands that are images."""

from __future__ import annotations

from collections.abc import Sequence

from npugraph.ge import attr
from npugraph.ge.tensor import Tensor

_FORMAT = "NCHW"


def images(result: Tensor, inputs: Sequence[int] = (0,), outputs: Sequence[int] = (0,)) -> None:
    """Says that these inputs and outputs of the operator of ``result`` are images, or filters for them, in the format
    NCHW."""
    for side, numbers in (("input", inputs), ("output", outputs)):
        info = result.node.attr[f"{side}_layout_info"].list
        attr.ListStr([_FORMAT] * len(numbers)).write(result.node.attr[f"{side}_layout_info"])
        info.i.extend(numbers)
