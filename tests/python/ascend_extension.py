# SPDX-License-Identifier: Apache-2.0
"""Loads tests/unit/backend/bridge/ascend_extension.cc, an extension that calls kernels by ``EXEC_NPU_CMD``, and the
library of these kernels. Its functions serve as Meta functions, too."""

from __future__ import annotations

import torch

from tests.python.sample_kernels import FOLDER

torch.ops.load_library(FOLDER / "libascend_extension.so")
ops = torch.ops.test_ascend
