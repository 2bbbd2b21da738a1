# SPDX-License-Identifier: Apache-2.0
"""Triton, for files of tests that need it."""

from __future__ import annotations

import os
from typing import Any

import pytest


def require_triton() -> Any:
    """The module, or skips the file that calls it if Triton or its interpreter is not there. Triton takes 1 GB, so
    ``make test`` has none: ``make long`` installs it apart from .venv and runs these files
    (tests/python/tooling/test_triton.py)."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("Triton takes 1 GB: `make long` has it, and sets TRITON_INTERPRET=1", allow_module_level=True)
    return pytest.importorskip("triton")
