# SPDX-License-Identifier: Apache-2.0
"""Parts of compiled code whose tasks become one, and settings of the npu device that hold in a part of a program
and are afterwards what they were. At the latter graphs of compiled functions break: with ``fullgraph=True`` they cannot
hold one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from npugraph.scope import super_kernel

__all__ = ["deterministic", "limit_core_num", "super_kernel"]


@contextlib.contextmanager
def limit_core_num(op_aicore_num: int, op_vectorcore_num: int, stream: torch.Stream | None = None) -> Iterator[None]:
    """Work of ``stream``, by default the current one, may use so many cube and vector cores
    (``torch.npu.set_stream_limit``). Raises ValueError where its device has not so many."""
    before = _limit(stream, op_aicore_num, op_vectorcore_num)
    try:
        yield
    finally:
        _set_limit(*before)


@contextlib.contextmanager
def deterministic(level: int) -> Iterator[None]:
    """How far results must repeat, as ``torch.npu.set_deterministic_level`` says. Raises ValueError for another
    level."""
    before = _set_level(level)
    try:
        yield
    finally:
        _set_level(before)


Limited = tuple[torch.Stream, dict[str, int]]


@torch.compiler.disable
def _limit(stream: torch.Stream | None, cube_num: int, vector_num: int) -> Limited:
    """The stream, and what its limit was."""
    npu = _npu("limit_core_num")
    stream = npu.current_stream() if stream is None else stream
    before = npu.get_stream_limit(stream)
    npu.set_stream_limit(stream, cube_num, vector_num)
    return stream, before


@torch.compiler.disable
def _set_limit(stream: torch.Stream, limit: dict[str, int]) -> None:
    torch.npu.reset_stream_limit(stream)
    if torch.npu.get_stream_limit(stream) != limit:
        torch.npu.set_stream_limit(stream, limit["cube_core_num"], limit["vector_core_num"])


@torch.compiler.disable
def _set_level(level: int) -> int:
    """What it was."""
    npu = _npu("deterministic")
    before = npu.get_deterministic_level()
    npu.set_deterministic_level(level)
    return before


def _npu(asker: str):
    if not hasattr(torch, "npu"):
        raise RuntimeError(f"npugraph_ex.scope.{asker} is for the npu device, and torch_npu is not installed")
    return torch.npu
