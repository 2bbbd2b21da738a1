# SPDX-License-Identifier: Apache-2.0
"""The quick start of GE mode on cpu. tests/python/device/compiled/test_seed_script_on_npu.py runs it on npu."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.python.ge import seed_script


@pytest.mark.feature("6.43", "9.03", "12e.7")
def test_the_script_prints_the_sum_and_says_what_it_does(tmp_path: Path) -> None:
    seed_script.check(seed_script.run(tmp_path, npu=False))
