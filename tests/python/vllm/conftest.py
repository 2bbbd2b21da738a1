# SPDX-License-Identifier: Apache-2.0
"""Puts the distribution npugraph-vllm, which these tests run from its sources, on the path of imports."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "packaging" / "npugraph_vllm"))
