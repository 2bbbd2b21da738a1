# SPDX-License-Identifier: Apache-2.0
"""Facts about operators that follow from their schemas."""

from __future__ import annotations

import functools
from typing import Any

import torch


@functools.cache
def is_view(operator: Any) -> bool:
    """Whether a result of ``operator``, an OpOverload, is a view of an argument that the operator does not write."""
    aliases = [result.alias_info for result in operator._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def is_of_ascend(operator: Any) -> bool:
    """Whether ``operator`` is one of Ascend's operators. They are the same on cpu and npu."""
    return isinstance(operator, torch._ops.OpOverload) and operator.namespace in ("npu", "atb")
