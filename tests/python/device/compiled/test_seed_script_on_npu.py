# SPDX-License-Identifier: Apache-2.0
"""The quick start of GE mode on npu, unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.python.forks import run_python
from tests.python.ge import seed_script


@pytest.mark.feature("6.43", "9.03")
def test_the_script_prints_the_sum_and_says_what_it_does(tmp_path: Path) -> None:
    seed_script.check(seed_script.run(tmp_path, npu=True))


# Operators of Ascend that write arguments, which have other forms in graphs here.
_WRITES = """
import torch, torch_npu, torchair

def step(cache, indices, x, gamma):
    torch_npu.npu_scatter_nd_update_(cache, indices, x)
    return torch_npu.npu_rms_norm(cache, gamma)[0]

given = [torch.zeros(4, 8), torch.tensor([[1], [2]]), torch.ones(2, 8), torch.ones(8)]
with torch.no_grad():
    torch.compile(step, backend=torchair.get_npu_backend())(*(tensor.npu() for tensor in given))
"""


def test_ascend_check_is_silent_on_programs_for_ascend(tmp_path: Path) -> None:
    for text in (seed_script.SCRIPT.read_text(encoding="utf-8"), _WRITES):
        path = tmp_path / "script.py"
        path.write_text(text, encoding="utf-8")
        done = run_python("-m", "npugraph", "ascend-check", path)
        assert done.returncode == 0, done.stderr
