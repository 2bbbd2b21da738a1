# SPDX-License-Identifier: Apache-2.0
"""Helpers for scripts."""

from torch_npu.npu.cann import get_cann_version
from torch_npu.utils.affinity import reset_thread_affinity, set_thread_affinity
from torch_npu.utils.combine_tensors import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors

__all__ = [
    "FlopsCounter",
    "get_cann_version",
    "get_part_combined_tensor",
    "is_combined_tensor_valid",
    "npu_combine_tensors",
    "reset_thread_affinity",
    "save_async",
    "set_thread_affinity",
]

# Names in modules that import much. They are imported at their first use.
_LATER = {"FlopsCounter": "flops_count", "save_async": "serialization"}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'torch_npu.utils' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"torch_npu.utils.{_LATER[name]}"), name)
