# SPDX-License-Identifier: Apache-2.0
"""Sizes and strides of fake tensors as texts of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npugraph.fx.translate.symbolic import SymbolicConverter, Unsupported
from npugraph.ge import attr


def texts(numbers: Sequence[Any]) -> list[str] | None:
    """The numbers in the syntax of the engine (src/core/tensor/expr.h). None if it has no word for one."""
    converter = SymbolicConverter()
    try:
        return [str(converter(number)) for number in numbers]
    except Unsupported:
        return None


def write_texts(desc: Any, name: str, numbers: Sequence[Any]) -> None:
    """Writes numbers into an attribute of a descriptor, as a list of texts. Without numbers, or if the engine has no
    words for them, it is left out."""
    words = texts(numbers)
    if words:
        attr.ListStr(words).write(desc.attr[name])
