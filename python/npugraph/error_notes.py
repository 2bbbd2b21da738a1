# SPDX-License-Identifier: Apache-2.0
"""Adds the line that Ascend's tools print below an error, as a note of the exception. Type, text and traceback of the
exception stay as they are."""

from __future__ import annotations

import os
import sys
import time

import torch

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
_DEFECT = "internal error: "  # the message of a defect of npugraph begins with it


def add_note(error: BaseException, where: str = "", place: str = "") -> None:
    """Adds the line to an error that does not have it yet. ``where`` is the name of the graph that ran or was compiled.
    ``place`` names the operator and the user's line, and is a note of its own above the line."""
    if any(text.startswith(_START) for text in getattr(error, "__notes__", ())):
        return
    cause = getattr(error, "inner_exception", error)  # torch's BackendCompilerFailed has one
    number, text = next((number, text) for kind, number, text in _KINDS if isinstance(cause, kind))
    if type(cause) is RuntimeError and not str(cause).startswith(_DEFECT):  # an operator refused its operands
        number, text = _OF_OPERANDS
    if place:
        error.add_note(place)
    now = time.strftime("%Y-%m-%d-%H:%M:%S")
    process = f"(PID:{os.getpid()}, Device:{_device()}, RankID:{_rank()})"
    error.add_note(f"{_START}{now} {process} ERR{_GRAPH}{number} GRAPH {text}{f' in {where}' if where else ''}")


def _device() -> int:
    """Returns the index of the current npu device, or -1 if the process has none."""
    return torch.npu.current_device() if "torch_npu" in sys.modules else -1


def _rank() -> int:
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else -1
