# SPDX-License-Identifier: Apache-2.0
"""npugraph is imported with the torch that it was built for, and says so with another one."""

from __future__ import annotations

import pytest
import torch

from tests.python.forks import run_python

HERE = torch.__version__.partition("+")[0]
MAJOR, MINOR, _ = HERE.split(".", 2)


def importing(version: str) -> str:
    return run_python("-c", f"import torch\ntorch.__version__ = {version!r}\nimport npugraph").stderr


@pytest.mark.parametrize("version", [HERE, f"{MAJOR}.{MINOR}.7+cu130", f"{MAJOR}.{MINOR}.0a0+git1"])
def test_any_build_of_the_same_minor_version_is_taken(version: str) -> None:
    assert importing(version) == ""


@pytest.mark.parametrize("version", [f"{MAJOR}.{int(MINOR) + 1}.0", f"{MAJOR}.{int(MINOR) - 1}.1+cpu", "1.13.1"])
def test_another_torch_gets_one_sentence(version: str) -> None:
    *_, line = importing(version).splitlines()
    assert f"is built for torch {MAJOR}.{MINOR}, and this is torch {version}: install torch=={MAJOR}.{MINOR}.*" in line
