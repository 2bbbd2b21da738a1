# SPDX-License-Identifier: Apache-2.0
"""A script for CUDA on npu. It changes torch for good, so it runs in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = str(Path(__file__).with_name("written_for_cuda.py"))
_IMPORT = f"from torch_npu.contrib import transfer_to_npu; import runpy; runpy.run_path({_SCRIPT!r})"


@pytest.mark.parametrize(
    "arguments, variables",
    [([_SCRIPT], {"TORCH_TRANSFER_TO_NPU": "1"}), (["-c", _IMPORT], {})],
    ids=["variable", "import"],
)
def test_a_script_for_cuda(arguments: list[str], variables: dict[str, str]):
    subprocess.run([sys.executable, *arguments], check=True, env={**os.environ, **variables})
