# SPDX-License-Identifier: Apache-2.0
"""What a block of code says about the operators in it."""

from npugraph.ge.backend.scopes import (
    data_dump,
    limit_core_num,
    npu_stream_switch,
    npu_wait_tensor,
    op_never_timeout,
    super_kernel,
)
from npugraph.scope import deterministic

__all__ = [
    "data_dump",
    "deterministic",
    "limit_core_num",
    "npu_stream_switch",
    "npu_wait_tensor",
    "op_never_timeout",
    "super_kernel",
]
