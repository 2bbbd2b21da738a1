# SPDX-License-Identifier: Apache-2.0
"""Formats of weights and caches, in the module from which scripts of Ascend import them."""

from npugraph.ge.backend.npu_backend import npu_format_cast_via_cpu, use_internal_format_weight
from torchair.inference import cache_compile, readable_cache, set_dim_gears

__all__ = ["cache_compile", "npu_format_cast_via_cpu", "readable_cache", "set_dim_gears", "use_internal_format_weight"]
