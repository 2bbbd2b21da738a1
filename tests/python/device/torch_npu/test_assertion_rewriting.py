# SPDX-License-Identifier: Apache-2.0
"""torch_npu registers its device with torch._dynamo, whichever loader loads that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REWRITTEN = "import pytest\npytest.register_assert_rewrite('torch._dynamo')\n"
TEST = """
import sys

import torch
import torch_npu

assert "torch._dynamo" not in sys.modules


def test_import():
    import torch._dynamo
    from torch._dynamo.device_interface import get_interface_for_device

    assert type(torch._dynamo.__loader__).__name__ == "AssertionRewritingHook"
    assert get_interface_for_device("npu").device_count() == torch.npu.device_count()
    compiled = torch.compile(lambda x: x + 1, backend="npugraph_ex", fullgraph=True)
    assert compiled(torch.ones(2, device="npu")).tolist() == [2, 2]
"""


def test_dynamo_knows_npu_under_the_assertion_rewriting_of_pytest(tmp_path: Path) -> None:
    """pytest loads torch._dynamo and all its submodules with one loader object."""
    (tmp_path / "conftest.py").write_text(REWRITTEN)
    (tmp_path / "test_import.py").write_text(TEST)
    # The pytest plug-in of the wheel would import torch._dynamo before.
    alone = ["-p", "no:cacheprovider", "-p", "no:npugraph", "--rootdir", str(tmp_path), str(tmp_path)]
    run = subprocess.run([sys.executable, "-B", "-m", "pytest", "-q", *alone], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
