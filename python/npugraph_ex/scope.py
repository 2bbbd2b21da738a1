# SPDX-License-Identifier: Apache-2.0
"""Scopes in code that is compiled, and settings of the npu device that hold in a part of a program."""

from npugraph.core_limits import limit_core_num
from npugraph.scope import deterministic, super_kernel

__all__ = ["deterministic", "limit_core_num", "super_kernel"]
