# SPDX-License-Identifier: Apache-2.0
"""Formats of weights, in the module from which scripts of Ascend import them, and names of the cache, which are not
here."""

from npugraph.facade import lazy_names
from npugraph.ge.backend.npu_backend import npu_format_cast_via_cpu, use_internal_format_weight
from torchair import _ABSENT

__all__ = ["npu_format_cast_via_cpu", "use_internal_format_weight"]

_CACHE = ("cache_compile", "readable_cache", "set_dim_gears")

__getattr__ = lazy_names(__name__, {}, dict.fromkeys(_CACHE, _ABSENT["inference"]))
