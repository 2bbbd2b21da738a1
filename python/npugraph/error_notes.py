# SPDX-License-Identifier: Apache-2.0
"""Notes of errors: the operator and the line of the user's program and, for the backends with Ascend's names, the line
that Ascend's tools print below an error. Type, text and traceback of the exception stay as they are."""

from __future__ import annotations

import os
import sys
import time

import torch

from npugraph import python_versions

_OF_ASCEND = ("npugraph_ex", "torchair")  # backends
_START = "[ERROR] "
_GRAPH = "03"  # Ascend's number of the module
# Number and text of Ascend's error codes by type of the exception; the first type that fits counts.
_KINDS: tuple[tuple[type[BaseException], str, str], ...] = (
    (torch.OutOfMemoryError, "006", "memory error"),
    (MemoryError, "006", "memory error"),
    (FileNotFoundError, "008", "resource not found"),
    (PermissionError, "012", "permission error"),
    (NotImplementedError, "007", "feature not supported"),
    (TypeError, "002", "invalid type"),
    (ValueError, "003", "invalid value"),
    (IndexError, "001", "invalid parameter"),
    (BaseException, "005", "internal error"),
)
_OF_OPERANDS = ("001", "invalid parameter")
_OF_MEMORY = ("006", "memory error")
_NO_MEMORY = "can't allocate memory: you tried to allocate "  # in RuntimeErrors of torch and of npugraph
_DEFECT = "internal error: "  # the message of a defect of npugraph begins with it


def add_note(error: BaseException, backend: str | None, where: str = "", place: str = "") -> None:
    """Adds the notes to an error that does not have them yet. ``backend`` is the one that the user asked for, or None.
    ``where`` is the name of the graph that ran or was compiled. ``place`` names the operator and the user's line, and
    is a note of its own above Ascend's line."""
    notes = getattr(error, "__notes__", ())
    if any(text.startswith(_START) for text in notes):
        return
    if place and place not in notes:
        python_versions.add_note(error, place)
    if backend not in _OF_ASCEND:
        return
    number, text = _kind(getattr(error, "inner_exception", error))  # torch's BackendCompilerFailed has one
    now = time.strftime("%Y-%m-%d-%H:%M:%S")
    process = f"(PID:{os.getpid()}, Device:{_device()}, RankID:{_rank()})"
    line = f"{_START}{now} {process} ERR{_GRAPH}{number} GRAPH {text}{f' in {where}' if where else ''}"
    python_versions.add_note(error, line)


def _kind(cause: BaseException) -> tuple[str, str]:
    if type(cause) is RuntimeError and not str(cause).startswith(_DEFECT):  # an operator refused its operands
        return _OF_MEMORY if _NO_MEMORY in str(cause) else _OF_OPERANDS
    return next((number, text) for kind, number, text in _KINDS if isinstance(cause, kind))


def _device() -> int:
    """Returns the index of the current npu device, or -1 if the process has none."""
    return torch.npu.current_device() if "torch_npu" in sys.modules else -1


def _rank() -> int:
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else -1
