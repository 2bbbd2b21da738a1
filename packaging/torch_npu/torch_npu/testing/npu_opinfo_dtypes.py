# SPDX-License-Identifier: Apache-2.0
"""The types that operators take on npu. They are those that they take on the CPU, whose kernels run them."""

from __future__ import annotations

import torch
from torch.testing._internal.common_methods_invocations import op_db

__all__ = ["NPU_OPINFO_DTYPES"]

# Maps the full name of an operator of torch's database to its types.
NPU_OPINFO_DTYPES: dict[str, frozenset[torch.dtype]] = {info.formatted_name: frozenset(info.dtypes) for info in op_db}
