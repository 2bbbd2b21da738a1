# SPDX-License-Identifier: Apache-2.0
"""What stored graphs depend on beside themselves: one is used only by a process of which all of this is the same."""

import platform

import torch

from npugraph import _C

MADE_WITH = {
    "npugraph": _C.version,
    "build": _C.build_id().hex(),
    "torch": torch.__version__,
    "machine": platform.machine(),
}
