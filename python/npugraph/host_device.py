# SPDX-License-Identifier: Apache-2.0
"""The npu device as the compiler sees it: nothing, until ``torch_npu`` has loaded ``npugraph._ascend``."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch


def _module() -> Any:
    return sys.modules.get("npugraph._ascend")


def operators() -> list[Any]:
    """The rows of Ascend's operators (``npugraph._ascend.Operator``)."""
    return [] if (module := _module()) is None else module.operators()


@functools.cache
def names_on_host(operator: str) -> tuple[str, ...]:
    """The arguments of an operator of Ascend, "npu::name", that may be on the host beside tensors of npu."""
    return next((tuple(row.on_host) for row in operators() if row.name == operator), ())


def is_captured() -> bool:
    """Whether the work that the calling thread launches becomes part of a graph of npu."""
    module = _module()
    return module is not None and module.is_watching() and module.is_capturing(torch.accelerator.current_stream())
