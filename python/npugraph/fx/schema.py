# SPDX-License-Identifier: Apache-2.0
"""What the schema of an operator says."""

from __future__ import annotations

import functools
from typing import Any

import torch


@functools.cache
def is_view(operator: Any) -> bool:
    """Whether a result of ``operator``, an OpOverload, lies in the memory of an argument, which it does not write."""
    aliases = [result.alias_info for result in operator._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def is_of_ascend(operator: Any) -> bool:
    """Whether ``operator`` is one of Ascend's, which are the same on cpu and npu."""
    return isinstance(operator, torch._ops.OpOverload) and operator.namespace in ("npu", "atb")
