# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs that outlive the process."""

from npugraph.inference import cache_compile, readable_cache

__all__ = ["cache_compile", "readable_cache"]
