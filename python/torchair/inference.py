# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs that outlive the process."""

from npugraph.ge.cache.entry import cache_compile
from npugraph.inference import readable_cache

__all__ = ["cache_compile", "readable_cache"]
