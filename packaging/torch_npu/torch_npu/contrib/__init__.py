# SPDX-License-Identifier: Apache-2.0
"""Functions and modules that scripts for Ascend devices use."""

from torch_npu.contrib import function, module
from torch_npu.contrib.function import *  # noqa: F403
from torch_npu.contrib.module import *  # noqa: F403

__all__ = [*function.__all__, *module.__all__]
