# SPDX-License-Identifier: Apache-2.0
"""Which types operators take on npu: those that they take on cpu, whose kernels run them."""

from __future__ import annotations

import torch
from torch.testing._internal.common_methods_invocations import op_db

__all__ = ["NPU_OPINFO_DTYPES"]

# Full name of an operator of torch's database -> types.
NPU_OPINFO_DTYPES: dict[str, frozenset[torch.dtype]] = {info.formatted_name: frozenset(info.dtypes) for info in op_db}
