# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs that outlive the process, and gears, the sizes that a dimension may have."""

from npugraph.facade import lazy_names
from npugraph.ge.cache.entry import cache_compile
from npugraph.inference import readable_cache

__all__ = ["cache_compile", "readable_cache", "set_dim_gears"]  # noqa: F822 (the last one imports torch._dynamo)

__getattr__ = lazy_names(__name__, {"set_dim_gears": "npugraph.ge.gears"})
