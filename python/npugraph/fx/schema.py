# SPDX-License-Identifier: Apache-2.0
"""What the schema of an operator says."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def is_view(operator: Any) -> bool:
    """Whether a result of ``operator``, an OpOverload, lies in the memory of an argument, which it does not write."""
    aliases = [result.alias_info for result in operator._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)
