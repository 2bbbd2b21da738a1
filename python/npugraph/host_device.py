# SPDX-License-Identifier: Apache-2.0
"""The npu device as the compiler sees it: nothing, until ``torch_npu`` has loaded ``npugraph._ascend``."""

from __future__ import annotations

import sys
from typing import Any

import torch


def _module() -> Any:
    return sys.modules.get("npugraph._ascend")


def operators() -> list[Any]:
    """The rows of Ascend's operators (``npugraph._ascend.Operator``)."""
    return [] if (module := _module()) is None else module.operators()


def is_captured() -> bool:
    """Whether the work that the calling thread launches becomes part of a graph of npu."""
    module = _module()
    return module is not None and module.is_watching() and module.is_capturing(torch.accelerator.current_stream())
