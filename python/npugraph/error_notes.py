# SPDX-License-Identifier: Apache-2.0
"""The line that Ascend's tools print below an error, as a note of the exception: its type, text and traceback stay."""

from __future__ import annotations

import os
import sys
import time

import torch

_START = "[ERROR] "
_GRAPH = "03"  # the module, of those that Ascend numbers
# The first that fits; kind and text of Ascend's error codes.
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
_DEFECT = "internal error: "  # begins the message of a defect of ours


def add_note(error: BaseException, where: str = "", place: str = "") -> None:
    """Adds the line to an error that has none yet. ``where`` is the name of the graph that ran or was compiled;
    ``place``, a line of its own above, names the operator and the user's line."""
    if any(text.startswith(_START) for text in getattr(error, "__notes__", ())):
        return
    cause = getattr(error, "inner_exception", error)  # of torch's BackendCompilerFailed
    number, text = next((number, text) for kind, number, text in _KINDS if isinstance(cause, kind))
    if type(cause) is RuntimeError and not str(cause).startswith(_DEFECT):  # of an operator that refuses its operands
        number, text = _OF_OPERANDS
    if place:
        error.add_note(place)
    now = time.strftime("%Y-%m-%d-%H:%M:%S")
    process = f"(PID:{os.getpid()}, Device:{_device()}, RankID:{_rank()})"
    error.add_note(f"{_START}{now} {process} ERR{_GRAPH}{number} GRAPH {text}{f' in {where}' if where else ''}")


def _device() -> int:
    """The current npu device; -1 where the process has none."""
    return torch.npu.current_device() if "torch_npu" in sys.modules else -1


def _rank() -> int:
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else -1
