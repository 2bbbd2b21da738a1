# SPDX-License-Identifier: Apache-2.0
"""Pairs of what FX and what a converted graph have for one value, and their parts in arguments of operators.

Scripts for Ascend, such as those of vLLM, replace these names in ``torchair`` and ``npugraph_ex``. Conversions of
npugraph keep both sides apart and do not call them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch


class ValuePack:
    """A value: ``meta`` is the fake tensor or number of FX, ``npu`` is what the converted graph has for it."""

    def __init__(self, meta: Any, npu_meta: Any = None) -> None:
        self.meta = meta
        self.npu = meta if npu_meta is None else npu_meta

    def __repr__(self) -> str:
        return f"ValuePack(meta={self.meta}, npu={self.npu})"


def is_symlist(value: Any) -> bool:
    """Whether a value is a list of sizes with a symbol among them."""
    return isinstance(value, (list, tuple)) and any(isinstance(_meta(item), torch.SymInt) for item in value)


def unpack_meta_list(values: Sequence[Any]) -> list[Any]:
    """Returns a list with the side of FX of each pair."""
    return [_meta(value) for value in values]


def unpack_meta(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Returns arguments with the side of FX of each pair."""
    return _unpacked(args, kwargs, _meta)


class NpuGraphConverter:
    """Has the other side of pairs."""

    def _unpack_npu(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Returns arguments with the side of the converted graph of each pair."""
        return _unpacked(args, kwargs, lambda value: value.npu if _is_pack(value) else value)


def _unpacked(
    args: Sequence[Any], kwargs: Mapping[str, Any], side: Callable[[Any], Any]
) -> tuple[list[Any], dict[str, Any]]:
    def unpack(value: Any) -> Any:
        if isinstance(value, (list, tuple)) and any(map(_is_pack, value)):
            return [side(item) for item in value]
        if isinstance(value, dict):
            return {key: side(item) for key, item in value.items()}
        return side(value)

    return [unpack(value) for value in args], {key: unpack(value) for key, value in kwargs.items()}


def _is_pack(value: Any) -> bool:
    """Whether a value is a pair, also one of a class that takes the place of ``ValuePack``."""
    return isinstance(value, ValuePack) or type(value).__name__ == ValuePack.__name__


def _meta(value: Any) -> Any:
    return value.meta if _is_pack(value) else value
